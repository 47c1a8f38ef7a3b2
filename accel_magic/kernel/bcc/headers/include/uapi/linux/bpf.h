/* Empty: BCC has its own copy. */
