// Package reference writes the reference pages under docs/ from what the program says itself: settings.md from the
// comments of package configs, commands.md from the help of the commands. Tests compare the pages with what is written
// anew; make docs rewrites them.
package reference
