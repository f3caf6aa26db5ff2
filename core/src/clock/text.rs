//! How a clock's text is cut into words.

/// The longest text that is read, in bytes. Releases before 0.3.1 took one of that length.
pub const LONGEST_TEXT: usize = 4_000;

/// The longest text that is taken, in bytes: seven fields with each value listed have fewer.
pub const LONGEST_NEW_TEXT: usize = 1_000;

/// What separates the words of a text.
pub(crate) const BLANKS: [char; 2] = [' ', '\t'];

/// What blanks part in a text.
pub(crate) fn words(text: &str) -> Vec<&str> {
    text.split(BLANKS).filter(|word| !word.is_empty()).collect()
}
