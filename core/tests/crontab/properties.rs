//! What holds for any text: no panic, no line lost, and names that depend on nothing but their own entry.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use scheduler_core::crontab::{read, Line, Style};

fn styles() -> impl Strategy<Value = Style> {
    prop_oneof![Just(Style::User), Just(Style::System)]
}

/// Lines of the kinds that matter, with the marks that the reader looks at, and some that are anything.
fn lines() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ \t]{0,2}[0-9*/,-]{1,4}[ \t]([0-9*]{1,2}[ \t]{1,2}){3,5}[a-z%\\\\ \"'=]{0,12}\r?",
        "@(daily|hourly|reboot|weekly|DAILY|x)[ \t]{0,2}[a-z%\\\\ ]{0,8}",
        "[ \t]?[\"']?[A-Z_ ]{0,4}[\"']?[ \t]?=[ \t]?[\"']?[a-z ='\"]{0,6}[\"']?\r?",
        "[ \t]{0,2}#.{0,8}",
        "[ \t\r]{0,3}",
        "\\PC{0,20}",
        any::<String>(),
    ]
}

fn texts() -> impl Strategy<Value = String> {
    prop::collection::vec(lines(), 0..12).prop_map(|lines| lines.join("\n"))
}

/// Entries that read well in either style, duplicates among them.
fn good_entries() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("([0-5] [0-3] \\* \\* \\*|@daily|@hourly) (ada|bob) [a-c]{1,2}( [a-c])?(%[a-c])?", 1..12)
}

fn names(text: &str, style: Style) -> Vec<String> {
    read(text, style).filter_map(|line| line.entry.ok()).map(|entry| entry.old_name).collect()
}

proptest! {
    #[test]
    fn every_line_is_blank_a_comment_an_assignment_or_reported(text in texts(), style in styles()) {
        let found: HashMap<usize, Line> = read(&text, style).map(|line| (line.number, line)).collect();
        let body = text.strip_prefix('\u{feff}').unwrap_or(&text);
        for (index, line) in body.split('\n').enumerate() {
            let line = line.trim_end_matches('\r').trim_start_matches([' ', '\t']);
            let silent = line.is_empty() || line.starts_with('#');
            let reported = found.contains_key(&(index + 1));
            prop_assert!(!(silent && reported), "{:?} is reported", line);
            prop_assert!(silent || reported || line.contains('='), "{:?} is lost", line);
        }
    }

    #[test]
    fn names_are_unique_short_and_repeatable(text in texts(), style in styles()) {
        let names = names(&text, style);
        let lines: Vec<_> = read(&text, style).collect();
        prop_assert_eq!(&lines, &read(&text, style).collect::<Vec<_>>());
        prop_assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        prop_assert!(names.iter().all(|name| name.is_ascii() && name.len() <= 200));
    }

    #[test]
    fn other_lines_and_another_order_change_no_name(
        (entries, shuffled) in good_entries().prop_flat_map(|entries| (Just(entries.clone()), Just(entries).prop_shuffle())),
        other in prop_oneof!["# [a-z]{0,5}", Just(String::new()), Just("X=y".to_owned()), Just("61 broken".to_owned())],
        style in styles(),
    ) {
        let plain = names(&entries.join("\n"), style);
        prop_assert_eq!(plain.len(), entries.len());
        prop_assert_eq!(&plain, &names(&entries.join(&format!("\n{other}\n")), style));
        let sorted = |mut names: Vec<String>| { names.sort(); names };
        prop_assert_eq!(sorted(plain.clone()), sorted(names(&shuffled.join("\n"), style)));
        for (entry, name) in entries.iter().zip(&plain) {
            let alone = names(entry, style).remove(0);
            prop_assert!(*name == alone || name.starts_with(&format!("{alone} #")), "{} alone is {}", name, alone);
        }
    }
}
