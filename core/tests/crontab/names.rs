//! Names are kept in databases for years: these tests say what may never change, and why one fails.

use scheduler_core::crontab::Style;

use super::{entries, one};

fn names(text: &str, style: Style) -> Vec<String> {
    entries(text, style).into_iter().map(|entry| entry.old_name).collect()
}

/// If this fails, every import of a crontab that a database already holds would make a second set of schedules.
#[test]
fn the_names_of_today_are_the_names_for_ever() {
    for (text, style, name) in [
        ("5 4 * * * x", Style::User, "crontab:-:x:52e134eafdd1"),
        (
            "CRON_TZ=Europe/Berlin\n@daily root /usr/bin/mail -s hi ada%hello%",
            Style::System,
            "crontab:root:mail-hi-ada:25d386e6189c",
        ),
        (
            "17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly",
            Style::System,
            "crontab:root:run-parts-cron.hourly:de4c304496ae",
        ),
    ] {
        assert_eq!(names(text, style), [name], "{text:?}");
    }
}

#[test]
fn the_words_of_a_name_are_the_command_that_does_something() {
    for (command, words) in [
        ("x", "x"),
        ("/usr/local/bin/backup.sh", "backup.sh"),
        ("/usr/local/bin/backup.sh --full /srv/data", "backup.sh-data"),
        ("php /usr/share/cacti/site/poller.php 2>&1 >/dev/null", "php-poller.php"),
        ("cd / && run-parts --report /etc/cron.daily", "run-parts-cron.daily"),
        ("[ -x /usr/sbin/dma ] && /usr/sbin/dma -q", "dma"),
        ("if [ -x /usr/bin/mailman ]; then /usr/bin/mailman notify; fi", "mailman-notify"),
        ("test -e /run/systemd/system || SERVICE_MODE=1 /sbin/e2scrub_all -A -r", "e2scrub_all"),
        (
            "[ -x a ] && if [ ! -d b ]; then /usr/sbin/invoke-rc.d anacron start >/dev/null; fi",
            "invoke-rc.d-anacron-start",
        ),
        ("test -x y || { cd / && run-parts --report /etc/cron.weekly; }", "run-parts-cron.weekly"),
        ("psql -qc 'VACUUM' app", "psql"),
        ("/usr/bin/test -x a && a", "a"),
        ("if [ -x a ]; then a digests --periodic; fi", "a-digests"),
        ("TZ=UTC timeout 5 php artisan schedule:run extra", "timeout-php-artisan"),
        ("php artisan:run 60 2", "php-artisan-run"),
        ("cd a; b; c", "b"),
        ("\"$HOME/my jobs/run\"", "my"),
        ("$(x) y", "x-y"),
        ("\u{65e5}\u{672c} a", "command-a"),
        ("[ -x a ]", "command"),
        ("/ b", "command-b"),
    ] {
        let name = one(&format!("@daily {command}"), Style::User).old_name;
        assert_eq!(name.split(':').nth(2), Some(words), "{command:?}: {name}");
    }
}

#[test]
fn a_name_is_ascii_and_short_whatever_the_entry_holds() {
    let long = "\u{65e5}x".repeat(5000);
    for text in [format!("@daily {long} {long} {long}"), format!("@daily {0} {0}/y z z z", "a".repeat(5000))] {
        let name = one(&text, Style::System).old_name;
        assert!(name.is_ascii() && name.len() <= 200, "{name}");
    }
}

#[test]
fn all_that_makes_an_entry_is_in_its_name_and_nothing_else() {
    let base = names("TZ=Europe/Berlin\n5 4 * * * root x y%z", Style::System);
    for same in [
        "# other lines\n\nTZ=Europe/Berlin\n5 4 * * * root x y%z",
        "TZ=Europe/Berlin\nPATH=/bin\n5  4\t* * * \troot   x y%z\r\n",
        "CRON_TZ=Europe/Berlin\n5 4 * * * root x y%z%",
    ] {
        assert_eq!(names(same, Style::System), base, "{same:?}");
    }
    for other in [
        "TZ=Europe/Paris\n5 4 * * * root x y%z",
        "5 4 * * * root x y%z",
        "TZ=Europe/Berlin\n5 5 * * * root x y%z",
        "TZ=Europe/Berlin\n5 4 * * * ada x y%z",
        "TZ=Europe/Berlin\n5 4 * * * root x  y%z",
        "TZ=Europe/Berlin\n5 4 * * * root x y%w",
        "TZ=Europe/Berlin\n5 4 * * * root x y",
        "TZ=Europe/Berlin\n5 4 * * * root x y\\%z",
    ] {
        assert_ne!(names(other, Style::System), base, "{other:?}");
    }
    assert_ne!(names("@daily - x", Style::System), names("@daily x", Style::User), "the user \"-\" is not no user");
}

#[test]
fn identical_entries_are_counted_among_themselves() {
    let found = names("@daily x\n@daily y\n@daily x\nA=b\n@daily  x\n", Style::User);
    let x = &found[0];
    assert_eq!(found, [x.clone(), found[1].clone(), format!("{x} #2"), format!("{x} #3")]);
    assert!(!found[1].contains('#'));
}

/// The program is for people; what follows it, and what is assigned before it, may be a secret.
#[test]
fn a_name_has_the_program_and_nothing_else_of_the_command() {
    for (command, program) in [
        ("x", "x"),
        ("/usr/bin/mysqldump --password hunter2 shop", "mysqldump"),
        ("PGPASSWORD=hunter2 pg_dump shop", "pg_dump"),
        ("PGPASSWORD=hunter2", "command"),
        ("PGPASSWORD=hunter2; export PGPASSWORD", "export"),
        ("cd / && run-parts --report /etc/cron.hourly", "run-parts"),
        ("\"$HOME/my jobs/run\" hunter2", "command"),
        ("'hunter2'", "command"),
        ("$(cat hunter2) x", "command"),
        ("https://user:hunter2@host/x", "command"),
        ("[ -x hunter2 ]", "command"),
        ("PGPASSWORD='correct hunter2 battery' pg_dump x", "command"),
        ("PASS=my\\ hunter2 /usr/bin/backup --all", "command"),
        ("AUTH=\"Bearer hunter2 sig\" curl x", "command"),
        ("cd '/x && hunter2 y' && backup", "command"),
        ("X=$(echo hunter2) backup", "command"),
    ] {
        let entry = one(&format!("@daily {command}"), Style::User);
        assert_eq!(entry.name(|_| "hash".to_owned()), format!("crontab:-:{program}:hash"), "{command:?}");
    }
}

#[test]
fn the_hash_is_of_all_that_makes_an_entry() {
    let said = |text: &str| {
        let mut said: Vec<u8> = Vec::new();
        one(text, Style::System).name(|bytes| {
            said.extend(bytes);
            String::new()
        });
        said
    };
    let base = said("TZ=Europe/Berlin\n5 4 * * * root x y%z");
    assert_eq!(said("PATH=/bin\nCRON_TZ=Europe/Berlin\n5  4\t* * * \troot   x y%z"), base);
    for other in [
        "5 4 * * * root x y%z",
        "TZ=Europe/Berlin\n5 5 * * * root x y%z",
        "TZ=Europe/Berlin\n5 4 * * * ada x y%z",
        "TZ=Europe/Berlin\n5 4 * * * root x y%zz",
    ] {
        assert_ne!(said(other), base, "{other:?}");
    }
    let second = entries("@daily x\n@daily x", Style::User).pop().unwrap();
    assert_eq!(second.name(|_| "hash".to_owned()), "crontab:-:x:hash #2");
}
