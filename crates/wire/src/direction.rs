/// Whether a character changes the direction of writing, which makes a name look like another one (Unicode Standard
/// Annex 9, table 4).
pub fn changes_direction(c: char) -> bool {
    matches!(
        c,
        '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}
