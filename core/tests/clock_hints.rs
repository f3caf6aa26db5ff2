//! Hints of refused clocks: what they propose can be read, and means what the broken text plainly meant.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

mod clock_support;

use clock_support::Random;
use scheduler_core::clock::Clock;

/// Every good text of the list, and some that others write.
fn clocks() -> Vec<String> {
    let good = include_str!("data/good_clocks.txt").lines().map(|line| line.split('\t').next().unwrap().to_owned());
    let others = [
        "cron(0 10 ? * 2-6 *)",
        "cron(0 9 * * mon)",
        "rate(5 minutes)",
        "0 0 12 ? * MON-FRI",
        "0 0 12 ? * 2-6",
        "0 7 * * ? *",
        "0 0 12 * * ? 2027",
        "@every 1h30m",
        "TZ=Europe/Berlin 0 9 * * *",
        "CRON_TZ=UTC every 5 minutes",
        "H/15 * * * *",
        "every day at 9",
        "every weekday at 5pm",
        "every 2 hours starting at 2027/01/01 9:00",
        "*/5 * * * * root /bin/true --quiet",
    ];
    good.chain(others.map(str::to_owned)).collect()
}

/// The error's hint shows clocks only: one, which is the proposal where there is one, or two where the text has two meanings. It shows none
/// where a sentence says that no one clock means the text.
fn judge(text: &str) {
    let Err(error) = Clock::parse(text) else { return };
    let hint = error.hint();
    let shown: Vec<&str> = hint.split('"').skip(1).step_by(2).collect();
    assert!(shown.iter().all(|shown| Clock::parse(shown).is_ok()), "{text:?}: {hint}");
    assert!(shown.len() <= 2 && (shown.len() == 1 || error.proposal().is_none()), "{text:?}: {hint}");
    assert_eq!(error.proposal().is_some(), hint.starts_with("Write \""), "{text:?}: {hint}");
    assert!(error.proposal().is_none_or(|proposal| proposal == shown[0]), "{text:?}: {hint}");
}

#[test]
fn every_proposal_can_be_read() {
    const WORDS: [&str; 31] = [
        "*",
        "?",
        "L",
        "W",
        "#",
        "-",
        "/",
        ",",
        "+5",
        "0x5",
        "60",
        "99",
        "0",
        "-5",
        "*/0",
        "*5",
        "22-2",
        "5/15",
        "mon",
        "monday",
        "UTC",
        "Europe/Berlin",
        "ls",
        "/bin/true",
        "from",
        "starting",
        "at 9",
        "minuts",
        "ago",
        "\u{a0}",
        "\"",
    ];
    let clocks = clocks();
    let mut random = Random(0x41_4E75);
    let mut proposed = 0;
    for _ in 0..10_000 {
        let clock = random.pick(&clocks);
        let mut words: Vec<String> = clock.split(' ').map(str::to_owned).collect();
        for _ in 0..=random.below(3) {
            let at = random.below(words.len() as u64) as usize;
            let word = (*random.pick(&WORDS)).to_owned();
            match random.below(6) {
                0 if words.len() > 1 => drop(words.remove(at)),
                1 => words.insert(at, word),
                2 => words.push(word),
                3 => words[at] = word,
                4 => words[at] += &word,
                _ => {
                    let mut letters: Vec<char> = words[at].chars().collect();
                    if letters.len() > 1 {
                        let letter = random.below(letters.len() as u64 - 1) as usize;
                        letters.swap(letter, letter + 1);
                    }
                    words[at] = letters.into_iter().collect();
                }
            }
        }
        let text = words.join(" ");
        judge(&text);
        proposed += u32::from(Clock::parse(&text).is_err_and(|error| error.proposal().is_some()));
    }
    assert!(proposed > 500, "{proposed}");
}

/// What is put behind a clock, or written as others write it, leaves a clock whose meaning is plain.
#[test]
fn every_proposal_means_the_clock_that_was_broken() {
    let mut count = 0;
    for text in include_str!("data/good_clocks.txt").lines().map(|line| line.split('\t').next().unwrap()) {
        let clock = Clock::parse(text).unwrap();
        if !matches!(clock, Clock::Cron(_)) {
            continue;
        }
        for broken in [
            format!("{text} Europe/Berlin"),
            format!("{text} UTC"),
            format!("{text} /usr/bin/true -x"),
            format!("{text} ls"),
            format!("TZ=UTC {text}"),
            text.replace(' ', "\u{a0}"),
            text.replace(" * ", " ? "),
        ] {
            let Err(error) = Clock::parse(&broken) else { continue };
            if let Some(proposal) = error.proposal() {
                assert_eq!(Clock::parse(proposal).as_ref(), Ok(&clock), "{broken:?}: {}", error.hint());
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count}");
}
