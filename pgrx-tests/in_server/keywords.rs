//! The words of the core are those of the schema: a word that only one of them has could not be stored, or not be read.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;
    use scheduler_core::alert;
    use scheduler_core::job::Kind;
    use scheduler_core::lease::Status;
    use scheduler_core::schedule::{CatchUp, Overlap, Ownership, Rearm, SkipReason};
    use scheduler_core::Keyword;

    use crate::test_support::sql;

    fn words<K: Keyword>() -> String {
        K::ALL.iter().map(|keyword| keyword.as_str()).collect::<Vec<_>>().join(",")
    }

    /// Every CHECK constraint that lists words, with its list: a new one needs an enum in the core.
    #[pg_test]
    fn checks_list_the_words_of_the_core() {
        let found = sql("SELECT string_agg(c.conrelid::regclass || '.' || a.attname || ': ' || list.words, E'\\n'
                                           ORDER BY c.conrelid::regclass::text, a.attname)
                           FROM pg_constraint c
                           JOIN pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum]
                          CROSS JOIN LATERAL (SELECT string_agg(word[1], ',' ORDER BY place) AS words
                                                FROM regexp_matches(pg_get_constraintdef(c.oid), '''([^'']*)''::text', 'g')
                                                     WITH ORDINALITY AS found (word, place)) list
                          WHERE c.contype = 'c' AND c.connamespace = 'sched'::regnamespace AND list.words IS NOT NULL");
        let expected = [
            ("sched.alert.kind", words::<alert::Kind>()),
            ("sched.job.kind", words::<Kind>()),
            ("sched.schedule.catch_up", words::<CatchUp>()),
            ("sched.schedule.overlap", words::<Overlap>()),
            ("sched.schedule.ownership", words::<Ownership>()),
            ("sched.schedule.rearm", words::<Rearm>()),
            ("sched.skip.reason", words::<SkipReason>()),
        ];
        let expected: Vec<String> = expected.iter().map(|(column, words)| format!("{column}: {words}")).collect();
        assert_eq!(found, expected.join("\n"));
    }

    /// The ledger has no such constraint: a run would pay for it. Its comment names every status.
    #[pg_test]
    fn the_comment_on_status_names_every_status() {
        let comment = sql("SELECT col_description(attrelid, attnum) FROM pg_attribute
                            WHERE attrelid = 'sched.ledger'::regclass AND attname = 'status'");
        let named = comment.split(|c: char| !c.is_ascii_uppercase()).filter(|word| word.len() > 1);
        let mut named: Vec<&str> = named.collect();
        named.sort_unstable();
        let mut known: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        known.sort_unstable();
        assert_eq!(named, known);
    }
}
