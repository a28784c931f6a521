"""One module per paper, one function per figure or table."""
