//! Text that somebody wrote: names, messages, zones. It has no `Display`, so that none of it can reach a page but
//! escaped, or a terminal but without what steers it.

use std::fmt::{self, Write as _};

use unicode_width::UnicodeWidthChar;

/// Stands for each character that is not shown.
const REPLACED: char = '\u{fffd}';
/// Of a longer name the page shows the beginning; the whole of it is in `data-schedule`.
const SHOWN: usize = 80;

/// What a user, an operator or the server wrote, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserText(String);

impl<T: Into<String>> From<T> for UserText {
    fn from(text: T) -> Self {
        UserText(text.into())
    }
}

impl UserText {
    /// True where there is nothing to show.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For an attribute in double quotes, or where no direction of writing can leak out of.
    pub(super) fn escaped(&self) -> Escaped<'_> {
        Escaped { text: &self.0, most: usize::MAX }
    }

    /// For the running text of a page: isolated, so that right-to-left text moves nothing beside it.
    pub(super) fn isolated(&self) -> Isolated<'_> {
        Isolated(Escaped { text: &self.0, most: usize::MAX })
    }

    /// The same, of a long text its beginning.
    pub(super) fn shortened(&self) -> Isolated<'_> {
        Isolated(Escaped { text: &self.0, most: SHOWN })
    }

    /// True where `shortened` leaves something out.
    pub(super) fn is_long(&self) -> bool {
        self.0.chars().nth(SHOWN).is_some()
    }

    /// To compare with, never to print.
    pub(super) fn key(&self) -> &str {
        &self.0
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }

    /// For a terminal: at most `columns` wide, and cut with an ellipsis.
    pub(super) fn for_terminal(&self, columns: usize, ascii_only: bool) -> String {
        let shown = |c: char| if ascii_only && !c.is_ascii() { '?' } else { c };
        let width = |c: char| c.width().unwrap_or(0);
        let clean: Vec<char> = self.0.chars().map(|c| shown(visible(c))).collect();
        if clean.iter().copied().map(width).sum::<usize>() <= columns {
            return clean.into_iter().collect();
        }
        let ellipsis = if ascii_only { "..." } else { "\u{2026}" };
        let mut left = columns.saturating_sub(ellipsis.chars().count());
        let mut cut: String = clean
            .into_iter()
            .take_while(|c| match left.checked_sub(width(*c)) {
                Some(rest) => {
                    left = rest;
                    true
                }
                None => false,
            })
            .collect();
        cut.push_str(ellipsis);
        cut
    }
}

/// The character, or its stand-in: a blank for what ends a line or fills it, and a sign for other control characters, what turns the direction of writing, and what XML refuses.
fn visible(c: char) -> char {
    let replaced = c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fdd0}'..='\u{fdef}' | '\u{fff9}'..='\u{fffb}')
        || u32::from(c) & 0xfffe == 0xfffe;
    if matches!(c, '\t' | '\n' | '\r') {
        ' '
    } else if replaced {
        REPLACED
    } else {
        c
    }
}

/// See [`UserText::escaped`].
pub(super) struct Escaped<'a> {
    text: &'a str,
    most: usize,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chars = self.text.chars();
        let clean: String = chars.by_ref().take(self.most).map(visible).collect();
        f.write_str(&html_escape::encode_quoted_attribute(&clean))?;
        if chars.next().is_some() {
            f.write_char('\u{2026}')?;
        }
        Ok(())
    }
}

/// See [`UserText::isolated`].
pub(super) struct Isolated<'a>(Escaped<'a>);

impl fmt::Display for Isolated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<bdi>{}</bdi>", self.0)
    }
}

/// The page with numeric entities outside of ASCII. Style and script have none of those, and nothing else on a page
/// is read literally.
pub(super) fn to_ascii(page: &str) -> String {
    let mut ascii = String::with_capacity(page.len() + page.len() / 8);
    for c in page.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            let _ = write!(ascii, "&#{};", u32::from(c));
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_wrote_is_escaped_and_isolated() {
        for (text, shown) in [
            ("nightly", "nightly"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("a\"b'c&d", "a&quot;b&#x27;c&amp;d"),
            ("a\nb\0c\u{7f}\u{85}", "a b\u{fffd}c\u{fffd}\u{fffd}"),
            ("\u{202e}evil\u{2066}\u{feff}\u{ffff}", "\u{fffd}evil\u{fffd}\u{fffd}\u{fffd}"),
            ("\u{5d0}\u{5d1} \u{65e5}", "\u{5d0}\u{5d1} \u{65e5}"),
        ] {
            assert_eq!(UserText::from(text).escaped().to_string(), shown);
            assert_eq!(UserText::from(text).isolated().to_string(), format!("<bdi>{shown}</bdi>"));
        }
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let name = UserText::from("\u{e9}".repeat(500));
        assert!(name.is_long());
        assert_eq!(name.shortened().to_string(), format!("<bdi>{}\u{2026}</bdi>", "\u{e9}".repeat(80)));
        assert!(!UserText::from("\u{e9}".repeat(80)).is_long());
        assert_eq!(UserText::from("&".repeat(90)).shortened().to_string().matches("&amp;").count(), 80);
    }

    #[test]
    fn a_terminal_counts_columns() {
        let wide = UserText::from("\u{65e5}\u{672c}\u{8a9e}");
        assert_eq!(wide.for_terminal(6, false), "\u{65e5}\u{672c}\u{8a9e}");
        assert_eq!(wide.for_terminal(5, false), "\u{65e5}\u{672c}\u{2026}");
        assert_eq!(wide.for_terminal(4, false), "\u{65e5}\u{2026}");
        assert_eq!(wide.for_terminal(6, true), "???");
        assert_eq!(UserText::from("abcdefgh").for_terminal(7, true), "abcd...");
        assert_eq!(UserText::from("a\u{1b}[2Jb").for_terminal(80, false), "a\u{fffd}[2Jb");
        assert_eq!(UserText::from("a\u{1b}[2Jb").for_terminal(80, true), "a?[2Jb");
    }

    #[test]
    fn ascii_has_entities() {
        assert_eq!(to_ascii("a\u{e9}\u{1f600}<b>"), "a&#233;&#128512;<b>");
    }
}
