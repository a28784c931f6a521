"""The study of INSANE (Mah 1996): IP over ATM with 103 policies, and what was reported of it."""
