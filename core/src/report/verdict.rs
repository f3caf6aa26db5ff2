//! What became of a plan time, and how loudly a page says so.

use crate::keyword::keywords;

keywords! {
    /// What became of a plan time, the loudest first.
    pub enum Verdict {
        /// It was fired and failed for good.
        Failed = "failed",
        /// It began later than it may, or is due and unfired.
        Late = "late",
        /// It was passed over; the reason says why.
        Skipped = "skipped",
        /// It was fired and has not begun, or waits for another attempt.
        Waiting = "waiting",
        /// It runs.
        Running = "running",
        /// It was fired and succeeded.
        Ran = "ran",
        /// It has not come yet.
        Planned = "planned",
    }
}

impl Verdict {
    /// How many there are.
    pub(super) const COUNT: usize = <Verdict as crate::Keyword>::ALL.len();

    /// Its place in `ALL`.
    pub(super) const fn index(self) -> usize {
        self as usize
    }

    /// The letter of its symbol in the page's `<defs>`.
    pub(super) const fn symbol(self) -> char {
        match self {
            Verdict::Failed => 'f',
            Verdict::Late => 'l',
            Verdict::Skipped => 's',
            Verdict::Waiting => 'w',
            Verdict::Running => 'u',
            Verdict::Ran => 'r',
            Verdict::Planned => 'p',
        }
    }

    /// Its character in a terminal, and that for a terminal without Unicode.
    pub(super) const fn characters(self) -> (char, char) {
        match self {
            Verdict::Failed => ('\u{2717}', 'X'),
            Verdict::Late => ('\u{25b2}', '!'),
            Verdict::Skipped => ('\u{25c7}', '/'),
            Verdict::Waiting => ('\u{25d0}', '~'),
            Verdict::Running => ('\u{25b6}', '>'),
            Verdict::Ran => ('\u{25ae}', '|'),
            Verdict::Planned => ('\u{25cb}', 'o'),
        }
    }

    /// True for what somebody should look at, whatever the reason.
    pub(super) const fn is_fault(self) -> bool {
        match self {
            Verdict::Failed | Verdict::Late => true,
            Verdict::Skipped | Verdict::Waiting | Verdict::Running | Verdict::Ran | Verdict::Planned => false,
        }
    }
}
