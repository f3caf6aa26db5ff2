//! Words of the contract: what a column holds and what an argument takes. Each list stands once, as an enum.
//!
//! CHECK constraints in `sql/schema/` repeat some of the lists, and a test in a server compares them.

/// An enum whose variants are words.
pub trait Keyword: Copy + Eq + 'static {
    /// Every variant, in the order in which messages list the words.
    const ALL: &'static [Self];

    /// The variant's word.
    fn as_str(self) -> &'static str;

    /// The variant of this word; the case counts.
    fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|keyword| keyword.as_str() == word)
    }

    /// All words, as hints list them.
    fn list() -> String {
        Self::ALL.iter().map(|keyword| keyword.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// Declares an enum with the word of each variant, so that neither list can lack one.
macro_rules! keywords {
    ($(#[$attribute:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $crate::keyword::Keyword for $name {
            const ALL: &'static [$name] = &[$($name::$variant),+];

            fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }
    };
}

pub(crate) use keywords;

#[cfg(test)]
mod tests {
    use super::Keyword;
    use crate::alert;
    use crate::enqueue::{IfExists, UniqueBy};
    use crate::health::{Component, Severity};
    use crate::job::{Attribute, Kind};
    use crate::lease::{Claim, Status};
    use crate::report::Verdict;
    use crate::schedule::{CatchUp, Overlap, Ownership, Rearm, SkipReason};

    fn reads_its_own_words<K: Keyword + std::fmt::Debug>() {
        for keyword in K::ALL {
            assert_eq!(K::parse(keyword.as_str()), Some(*keyword));
        }
        for other in ["", " ", "nothing"] {
            assert_eq!(K::parse(other), None);
        }
    }

    #[test]
    fn a_keyword_is_read_as_it_is_written() {
        reads_its_own_words::<Kind>();
        reads_its_own_words::<Attribute>();
        reads_its_own_words::<alert::Kind>();
        reads_its_own_words::<Component>();
        reads_its_own_words::<Severity>();
        reads_its_own_words::<UniqueBy>();
        reads_its_own_words::<IfExists>();
        reads_its_own_words::<Status>();
        reads_its_own_words::<Claim>();
        reads_its_own_words::<CatchUp>();
        reads_its_own_words::<Rearm>();
        reads_its_own_words::<Overlap>();
        reads_its_own_words::<Ownership>();
        reads_its_own_words::<SkipReason>();
        reads_its_own_words::<Verdict>();
        assert_eq!(Status::parse("pending"), None);
    }
}
