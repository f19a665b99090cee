// Package incontext evaluates labelled text by how well it serves as demonstrations: a language model, which is not
// trained, is shown k texts with their labels, and gives a label to a text of which it is shown no label.
//
//	header   text label   text label   …   text ?
//
// The answer is the label that is the likeliest continuation (summed log-probability of its tokens). Small models
// prefer some labels whatever the text is; the calibrated answer takes that away:
//
//	argmax over labels of  log p(label | demonstrations, text) − log p(label | demonstrations, "N/A")
//
// Sources: Brown et al., "Language Models are Few-Shot Learners" (arXiv 2005.14165), section 2; Zhao et al., "Calibrate
// Before Use" (arXiv 2102.09690), section 5, with one text without content instead of three.
package incontext
