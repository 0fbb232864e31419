//! Changes become images, incrementally; owns the blocks an image is made of.
