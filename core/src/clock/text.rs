//! How a clock's text is cut into words.

/// The longest text that is read, in bytes: seven fields with every value listed fit twice.
pub const LONGEST_TEXT: usize = 4_000;

/// What separates the words of a text.
pub(crate) const BLANKS: [char; 2] = [' ', '\t'];

/// What blanks part in a text.
pub(crate) fn words(text: &str) -> Vec<&str> {
    text.split(BLANKS).filter(|word| !word.is_empty()).collect()
}
