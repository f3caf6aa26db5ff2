//! What the crontab reader makes of single lines, of real tables, and of anything at all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod data;
mod names;
mod properties;

use scheduler_core::crontab::{doubt, read, CrontabEntry, LineError, Style};

/// The only entry of a text.
fn one(text: &str, style: Style) -> CrontabEntry {
    let mut entries = entries(text, style);
    assert_eq!(entries.len(), 1, "{text:?} gave {entries:?}");
    entries.remove(0)
}

/// All entries of a text, which has no faulty line.
fn entries(text: &str, style: Style) -> Vec<CrontabEntry> {
    read(text, style).map(|line| line.entry.unwrap_or_else(|error| panic!("{text:?}: {error:?}"))).collect()
}

/// The only line of a text, which is faulty.
fn fault(text: &str, style: Style) -> LineError {
    let mut lines: Vec<_> = read(text, style).collect();
    assert_eq!(lines.len(), 1, "{text:?} gave {lines:?}");
    lines.remove(0).entry.expect_err(text)
}

/// The variables in force at an entry below these lines.
fn variables(assignments: &str) -> Vec<(String, String)> {
    let entry = one(&format!("{assignments}\n* * * * * x"), Style::User);
    entry.environment.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[test]
fn an_entry_is_a_clock_and_a_command() {
    for (line, clock, command) in [
        ("5 4 * * * x", "5 4 * * *", "x"),
        ("5\t4 \t * *\t*\tx  y ", "5 4 * * *", "x  y "),
        (" \t 5 4 * * sun x", "5 4 * * sun", "x"),
        ("*/5 9-17,20 1,15 jan-mar mon-fri /bin/x -a", "*/5 9-17,20 1,15 jan-mar mon-fri", "/bin/x -a"),
        ("09,39 *     * * * x", "09,39 * * * *", "x"),
        ("@daily x y", "@daily", "x y"),
        ("@hourly\t x", "@hourly", "x"),
        ("5 4 * * * A=b x # no comment", "5 4 * * *", "A=b x # no comment"),
        ("5 4 * * * \u{fc}ber /tmp/\u{65e5}", "5 4 * * *", "\u{fc}ber /tmp/\u{65e5}"),
    ] {
        let entry = one(line, Style::User);
        assert_eq!((entry.clock.as_str(), entry.command.as_str()), (clock, command), "{line:?}");
        assert_eq!((entry.user, entry.stdin), (None, None), "{line:?}");
    }
}

#[test]
fn a_system_table_names_the_user_before_the_command() {
    for (line, clock, user, command) in [
        ("5 4 * * * root x y", "5 4 * * *", "root", "x y"),
        ("5 4 * * *\twww-data \t x y", "5 4 * * *", "www-data", "x y"),
        ("@weekly  Debian-exim  [ -x a ] && a", "@weekly", "Debian-exim", "[ -x a ] && a"),
        ("@daily ada@example.org x", "@daily", "ada@example.org", "x"),
    ] {
        let entry = one(line, Style::System);
        assert_eq!((&*entry.clock, entry.user.as_deref(), &*entry.command), (clock, Some(user), command), "{line:?}");
    }
    assert_eq!(one("5 4 * * * root x", Style::User).command, "root x");
}

#[test]
fn percent_signs_separate_command_and_input() {
    for (written, command, stdin) in [
        ("x", "x", None),
        ("x%", "x", None),
        ("x%%", "x", Some("\n")),
        ("x %a", "x ", Some("a\n")),
        ("x%a%", "x", Some("a\n")),
        ("x%a%b", "x", Some("a\nb\n")),
        ("x%Joe,%%Where are your kids?%", "x", Some("Joe,\n\nWhere are your kids?\n")),
        (r"date +\%F", "date +%F", None),
        (
            r"date +\%d \\ \\% \s end%first%second\%third\\%x\y",
            r"date +%d \ \",
            Some(" \\s end\nfirst\nsecond%third\\%x\\y\n"),
        ),
        (r"date '\\\%a' %tail\", r"date '\%a' ", Some("tail\\\n")),
        (r"sed 's/^\s*//' \", r"sed 's/^\s*//' \", None),
    ] {
        let entry = one(&format!("@daily {written}"), Style::User);
        assert_eq!((entry.command.as_str(), entry.stdin.as_deref()), (command, stdin), "{written:?}");
    }
}

#[test]
fn an_assignment_is_what_crons_own_automaton_takes_for_one() {
    for (line, name, value) in [
        ("A=b", "A", "b"),
        ("  A\t= \tb c  ", "A", "b c"),
        ("A = b # c", "A", "b # c"),
        ("A=\"  b  \"", "A", "  b  "),
        ("A='b \"c\"' ", "A", "b \"c\""),
        ("A=b\"c\"", "A", "b\"c\""),
        ("A=it's", "A", "it's"),
        ("A=\"\"", "A", ""),
        ("A=''", "A", ""),
        ("'A B'=c", "A B", "c"),
        ("\"A\" = c", "A", "c"),
        ("A=b=c", "A", "b=c"),
        ("PATH=$HOME/bin:~/x", "PATH", "$HOME/bin:~/x"),
        ("A=50%", "A", "50%"),
        ("* = *", "*", "*"),
        ("@daily=x", "@daily", "x"),
        ("USER=ada", "USER", "ada"),
    ] {
        assert_eq!(variables(line), [(name.to_owned(), value.to_owned())], "{line:?}");
    }
    assert_eq!(variables("LOGNAME=ada"), [], "cron sets LOGNAME itself");
}

#[test]
fn an_assignment_holds_below_its_line_until_the_next_one() {
    let text = "@daily a\nX=1\nY=2\n@daily b\nX=3\n\n@daily c\n";
    let seen: Vec<_> = entries(text, Style::User).iter().map(|entry| format!("{:?}", entry.environment)).collect();
    assert_eq!(seen, ["{}", r#"{"X": "1", "Y": "2"}"#, r#"{"X": "3", "Y": "2"}"#]);
}

#[test]
fn the_zone_is_cron_tz_then_tz() {
    for (assignments, zone) in [
        ("", None),
        ("TZ=Europe/Berlin", Some("Europe/Berlin")),
        ("CRON_TZ=Asia/Tokyo", Some("Asia/Tokyo")),
        ("CRON_TZ=Asia/Tokyo\nTZ=Europe/Berlin", Some("Asia/Tokyo")),
        ("TZ=Europe/Berlin\nCRON_TZ=Asia/Tokyo", Some("Asia/Tokyo")),
        ("TZ=Europe/Berlin\nCRON_TZ=\"\"", Some("Europe/Berlin")),
        ("TZ=''", None),
        ("TZ=:UTC", Some("UTC")),
        ("CRON_TZ=Nowhere/Else", Some("Nowhere/Else")),
    ] {
        let entry = one(&format!("{assignments}\n@daily x"), Style::User);
        assert_eq!(entry.time_zone.as_deref(), zone, "{assignments:?}");
    }
}

#[test]
fn a_faulty_line_says_what_is_wrong_and_stops_no_other() {
    for (style, line, message) in [
        (Style::User, "5 4 * * *", "no command after \"5 4 * * *\""),
        (Style::User, "5 4 * * * \t ", "no command after \"5 4 * * *\""),
        (Style::User, "5 4 * * * %x", "no command after \"5 4 * * *\""),
        (Style::User, "@daily", "no command after \"@daily\""),
        (Style::System, "@daily", "no command after \"@daily\""),
        (Style::System, "5 4 * * * root", "no command after the user name \"root\""),
        (Style::System, "5 4 * * * /bin/x y", "\"/bin/x\" is not a user name"),
        (Style::System, "5 4 * * * [ -x a ] && a", "\"[\" is not a user name"),
        (Style::User, "5 4 *", "\"5 4 *\" has 3 of the five time fields"),
        (Style::User, "@reboot x", "\"@reboot\" never happens: there is no boot event in a database"),
        (Style::System, "@REBOOT root x", "\"@REBOOT\" never happens: there is no boot event in a database"),
        (Style::User, "A=", "broken assignment \"A=\""),
        (Style::User, "A = \"b", "broken assignment \"A = \"b\""),
        (Style::User, "A=\"b\" c", "broken assignment \"A=\"b\" c\""),
        (Style::User, "A='b c d e f g", "broken assignment \"A='b c d e f g\""),
        (Style::User, "\"A=b\"=c", "broken assignment \"\"A=b\"=c\""),
        (Style::User, "=b", "broken assignment \"=b\""),
        (Style::User, "A B=c", "\"A B=c\" is neither an entry nor an assignment"),
        (
            Style::User,
            "every 5 minutes from epoch x",
            "\"every 5 minutes from epoch x\" is neither an entry nor an assignment",
        ),
        (Style::User, "never a b c d e", "\"never a b c d e\" is neither an entry nor an assignment"),
    ] {
        assert_eq!(fault(line, style).message, message, "{line:?}");
        let lines: Vec<_> = read(&format!("{line}\n@daily root x\n"), style).collect();
        assert_eq!((lines.len(), lines[0].entry.is_err(), lines[1].entry.is_ok()), (2, true, true), "{line:?}");
    }
}

#[test]
fn a_clock_that_no_schedule_would_take_is_a_fault_with_the_clocks_own_words() {
    for clock in ["61 * * * *", "5/15 * * * *", "* * * * funday", "-*/5 * * * *", "@fortnightly"] {
        let expected = scheduler_core::clock::Clock::parse(clock).expect_err(clock);
        let found = fault(&format!("{clock} x"), Style::User);
        assert_eq!((found.message, found.hint), (expected.to_string(), expected.hint()), "{clock:?}");
    }
}

#[test]
fn messages_are_phrases_and_hints_are_sentences() {
    let text = "@reboot x\n5 4\n@daily\nA=\n=\nhello\nA='x\n61 * * * * x\n/ * * * * x\n@daily \u{7}\n";
    for line in read(text, Style::System) {
        let error = line.entry.expect_err("all are faulty");
        assert!(!error.message.ends_with('.') && !error.message.starts_with(|c: char| c.is_uppercase()), "{error:?}");
        assert!(error.hint.ends_with('.') && error.hint.starts_with(|c: char| c.is_uppercase()), "{error:?}");
        assert!(!error.message.contains(|c: char| c.is_control()), "{error:?}");
    }
    assert!(fault(&"hello ".repeat(1000), Style::User).message.len() < 200);
}

#[test]
fn blank_lines_comments_and_foreign_line_ends_are_forgiven() {
    let unix = "# c\n\n \t \n  # c\nA=b\n5 4 * * * x y\n@daily z%in\n";
    let expected: Vec<_> = entries(unix, Style::User);
    assert_eq!(expected.len(), 2);
    for text in [
        unix.replace('\n', "\r\n"),
        unix.replace('\n', "\r\r\n"),
        unix.trim_end().to_owned(),
        unix.trim_end().to_owned() + "\r",
        format!("\u{feff}{unix}"),
    ] {
        assert_eq!(entries(&text, Style::User), expected, "{text:?}");
    }
    let numbers: Vec<_> = read(unix, Style::User).map(|line| line.number).collect();
    assert_eq!(numbers, [6, 7]);
    assert_eq!(read("", Style::User).count() + read("\n\r\n#", Style::System).count(), 0);
}

#[test]
fn an_entry_behind_an_assignment_and_a_sixth_time_field_are_faults() {
    for (line, message, hint) in [
        (
            "CRON_TZ=UTC 0 3 * * * backup --all",
            "\"CRON_TZ=UTC 0 3 * * * backup --all\" is an assignment",
            "\"CRON_TZ=UTC\" on a line of its own, above \"0 3 * * * backup --all\"",
        ),
        (
            "TZ = Europe/Berlin @daily backup",
            "\"TZ=Europe/Berlin @daily backup\" is an assignment",
            "above \"@daily backup\"",
        ),
        (
            "*/10 * * * * * backup",
            "six time fields before \"backup\"",
            "create_schedule with the clock \"*/10 * * * * *\"",
        ),
        ("0 0 3 * * 1-5 backup", "six time fields", "\"0 0 3 * * 1-5\""),
        ("0 3 * * * 2027 backup", "six time fields", "Leave one out"),
    ] {
        for style in [Style::User, Style::System] {
            let error = fault(line, style);
            assert!(error.message.contains(message) && error.hint.contains(hint), "{line}: {error:?}");
        }
    }
    // What follows is in the zone that held before.
    let lines: Vec<_> = read("CRON_TZ=UTC 0 3 * * * x\n0 4 * * * y", Style::User).collect();
    assert_eq!(lines[1].entry.as_ref().unwrap().time_zone, None);
    assert_eq!(variables("A=1 2 3 4 5").len(), 1);
    assert_eq!(one("0 3 * * * 7z a backup", Style::User).command, "7z a backup");
}

#[test]
fn a_table_of_the_other_style_is_told_by_its_sixth_fields() {
    let system =
        "SHELL=/bin/sh\n17 * * * * root cd / && run-parts /etc/cron.hourly\n@daily www-data php /srv/cron.php\n# x\n";
    assert!(doubt(system, Style::User).unwrap().starts_with("\"root\" is probably a user"));
    assert_eq!(doubt(system, Style::System), None);
    let own = "17 * * * * cd /srv && ./x\n0 3 * * * /usr/bin/php a.php\n@hourly find . -delete\n";
    assert!(doubt(own, Style::System).unwrap().starts_with("\"cd\" probably begins the command"));
    assert_eq!(doubt(own, Style::User), None);
    // One line that is otherwise is enough for no doubt.
    assert_eq!(doubt(&format!("{system}0 3 * * * find .\n"), Style::User), None);
    assert_eq!(doubt(&format!("{own}0 3 * * * shop x\n"), Style::System), None);
    assert_eq!(doubt("", Style::User), None);
}
