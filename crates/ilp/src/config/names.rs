/// Whether it is one in C.
pub(super) fn is_identifier(text: &str) -> bool {
    let mut letters = text.chars();
    let first = letters.next();
    first.is_some_and(|it| it.is_ascii_alphabetic() || it == '_')
        && letters.all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// Keywords of C17 (ISO/IEC 9899:2018, 6.4.1) and C++ that are no names of the emitted code.
const C_KEYWORDS: &[&str] = &[
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else",
    "enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register",
    "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef",
    "union", "unsigned", "void", "volatile", "while",
];

/// Names of the emitted code: parameters of its macros, and members of its structure.
const EMITTED: &[&str] = &["ilp_ptr", "intreg", "dst", "src", "counter"];

/// Why an identifier is no name of a variable or function.
pub(super) fn taken(name: &str) -> Option<String> {
    let is_numbered = ["buffer", "address"].iter().any(|front| {
        let number = name.strip_prefix(front);
        number.is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
    });
    if C_KEYWORDS.contains(&name) {
        Some(format!("{name} is a keyword of C: choose another name"))
    } else if EMITTED.contains(&name) || is_numbered {
        Some(format!(
            "{name} is a name of the emitted code: choose another one"
        ))
    } else {
        None
    }
}
