void popri_keep_large_buffers(void);  // glibc's settings, at the start of the program
void popri_release_free_blocks(void); // gives the pages of free blocks back to the kernel
