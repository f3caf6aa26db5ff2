//! import_crontab.

use pgrx::prelude::*;

#[pg_schema]
mod tests {
    use pgrx::prelude::*;

    use crate::test_support::{check, dispatch, quote, refused, run, sql, time_passes};

    macro_rules! table {
        ($name:literal, $system:literal) => {
            ($name, $system, include_str!(concat!("../data/crontabs/", $name)))
        };
    }

    /// The tables of data/crontabs: name, whether they have a user column, text.
    const TABLES: &[(&str, bool, &str)] = &[
        table!("amavisd-new/amavisd-new", true),
        table!("anacron/anacron", true),
        table!("apt-mirror/apt-mirror", true),
        table!("atop/atop", true),
        table!("awstats/awstats", true),
        table!("backupninja/backupninja", true),
        table!("barman/barman", true),
        table!("cacti/cacti", true),
        table!("certbot/certbot", true),
        table!("clamav-unofficial-sigs/clamav-unofficial-sigs", true),
        table!("cron-apt/cron-apt", true),
        table!("cron-daemon-common/crontab", true),
        table!("dma/dma", true),
        table!("e2fsprogs/e2scrub_all", true),
        table!("ganeti/ganeti", true),
        table!("inn2/inn2", true),
        table!("john/john", true),
        table!("leafnode/leafnode", true),
        table!("logcheck/logcheck", true),
        table!("mailman3/mailman3", true),
        table!("mailman3-web/mailman3-web", true),
        table!("mdadm/mdadm", true),
        table!("mlmmj/mlmmj", true),
        table!("munin/munin", true),
        table!("munin-node/munin-node", true),
        table!("ntpsec/ntpsec", true),
        table!("ntpsec-ntpviz/ntpsec-ntpviz", true),
        table!("php-common/php", true),
        table!("roundcube-core/roundcube-core", true),
        table!("rsnapshot/rsnapshot", true),
        table!("sa-exim/greylistclean", true),
        table!("sanoid/sanoid", true),
        table!("sysstat/sysstat", true),
        table!("tiger/tiger", true),
        table!("sysstat/crontab", false),
        table!("user/deploy", false),
        table!("user/environment", false),
        table!("user/laptop", false),
        table!("user/mistakes", false),
        table!("user/stdin", false),
        table!("user/time-zones", false),
        table!("user/windows", false),
    ];

    fn import(text: &str, more: &str) -> String {
        sql(&format!("SELECT * FROM sched.import_crontab({}{more})", quote(text)))
    }

    #[pg_test]
    fn a_users_table() {
        let text = "# comment\n\nMAILTO=me@example.org\n*/5 * * * * echo a%b\\%c%d\n@daily\tbackup --all\n";
        let expected = "4|crontab:-:echo-a:3d2c|*/5 * * * *|echo a|\n5|crontab:-:backup--all|@daily|backup --all|";
        let shown = import(text, "");
        let columns = |rows: &str| -> Vec<String> {
            rows.lines()
                .map(|row| {
                    row.split('|')
                        .enumerate()
                        .filter(|(n, _)| *n != 1)
                        .map(|(_, cell)| cell.to_owned())
                        .collect::<Vec<_>>()
                        .join("|")
                })
                .collect()
        };
        assert_eq!(columns(&shown), columns(expected), "{shown}");
        check(
            "SELECT clock, time_zone, job_name, payload, scope_kind, scope_id = schedule_name, catch_up, rearm, overlap, enabled, ownership
               FROM sched.schedule ORDER BY clock",
            "*/5 * * * *|UTC|crontab|{\"user\": null, \"stdin\": \"b%c\\nd\\n\", \"command\": \"echo a\", \"environment\": {\"MAILTO\": \"me@example.org\"}}|schedule|t|latest_only|on_dispatch|allow|t|owned\n\
             @daily|UTC|crontab|{\"user\": null, \"command\": \"backup --all\", \"environment\": {\"MAILTO\": \"me@example.org\"}}|schedule|t|latest_only|on_dispatch|allow|t|owned",
        );
        check("SELECT kind, queue, max_attempts FROM sched.job WHERE job_name = 'crontab'", "pull|crontab|1");
        // (Else it would be due as well where midnight is near.)
        run(&["SELECT sched.drop_schedule(schedule_name) FROM sched.schedule WHERE clock = '@daily'"]);
        dispatch(0);
        time_passes("5 minutes");
        dispatch(1);
        check("SELECT payload ->> 'command', payload ->> 'stdin' FROM sched.claim('crontab')", "echo a|b%c\nd\n");
    }

    /// A monitor reads names, and payloads not.
    #[pg_test]
    fn a_name_tells_nothing_of_the_command_but_its_program() {
        let text = "@daily PGPASSWORD=hunter2 /usr/bin/mysqldump --password hunter2 shop\n5 4 * * * x";
        import(text, "");
        check(
            "SELECT count(*) FROM sched.schedules WHERE schedule_name LIKE '%hunter2%' OR schedule_name LIKE '%shop%'",
            "0",
        );
        check("SELECT count(*) FROM sched.schedules WHERE schedule_name ~ '^crontab:-:mysqldump:[0-9a-f]{16}$'", "1");
        // The hash of the second line before 0.3.1, which everybody can compute.
        check("SELECT count(*) FROM sched.schedules WHERE schedule_name LIKE '%52e134eafdd1%'", "0");
        let names = sql("SELECT string_agg(schedule_name, ' ' ORDER BY schedule_name) FROM sched.schedules");
        run(&["SELECT sched.drop_schedule(schedule_name) FROM sched.schedules", "DELETE FROM sched.crontab_secret"]);
        import(text, "");
        let others = sql("SELECT string_agg(schedule_name, ' ' ORDER BY schedule_name) FROM sched.schedules");
        assert_ne!(names, others, "the hash is keyed by a secret of the database");
        // By the same secret a second import finds each line.
        import(text, "");
        check("SELECT string_agg(schedule_name, ' ' ORDER BY schedule_name) FROM sched.schedules", &others);
    }

    #[pg_test]
    fn no_role_learns_whether_another_has_the_same_line() {
        run(&["CREATE ROLE ct_other", "SELECT sched.grant_use('ct_other')"]);
        import("@daily /usr/bin/mysqldump shop", "");
        run(&["SET LOCAL ROLE ct_other"]);
        import("@daily /usr/bin/mysqldump shop", "");
        run(&["RESET ROLE"]);
        let hashes = "SELECT count(DISTINCT substring(schedule_name FROM '[0-9a-f]{16}$')) FROM sched.schedules";
        check(&format!("{hashes} WHERE schedule_name LIKE 'crontab%mysqldump:%'"), "2");
    }

    #[pg_test]
    fn a_line_imported_before_keeps_its_name() {
        run(&[
            "SELECT sched.define_job('crontab', queue => 'crontab', max_attempts => 1)",
            "SELECT sched.create_schedule('crontab:-:x:52e134eafdd1', '5 4 * * *', 'crontab')",
        ]);
        let rows = import("5 4 * * * x\n5 4 * * * x\n", "");
        let names: Vec<_> = rows.lines().filter_map(|row| row.split('|').nth(1)).collect();
        assert_eq!(names[0], "crontab:-:x:52e134eafdd1");
        assert!(names[1].starts_with("crontab:-:x:") && names[1].ends_with(" #2"), "{rows}");
        check("SELECT count(*) FROM sched.schedules", "2");
    }

    #[pg_test]
    fn a_system_table_names_users() {
        import("17 * * * * root cd / && run-parts\n18 * * * *\twww-data\tphp\n", ", system => true");
        check(
            "SELECT payload ->> 'user', payload ->> 'command', split_part(schedule_name, ':', 2) FROM sched.schedule ORDER BY clock",
            "root|cd / && run-parts|root\nwww-data|php|www-data",
        );
    }

    #[pg_test]
    fn the_same_text_twice_changes_nothing() {
        let text = "0 1 * * * a\n0 1 * * * a\n0 2 * * * b\nbad line\n";
        let first = import(text, "");
        run(&["SELECT sched.alter_schedule(schedule_name, clock => '0 3 * * *') FROM sched.schedules WHERE clock = '0 2 * * *'"]);
        let before = sql("SELECT s::text FROM sched.schedule s ORDER BY schedule_id");
        assert_eq!(import(text, ""), first);
        assert_eq!(sql("SELECT s::text FROM sched.schedule s ORDER BY schedule_id"), before);
        check("SELECT count(*) FROM sched.schedule", "3");
        // Elsewhere in another text a line keeps its name.
        import("# moved\n\n0 2 * * * b\n0 4 * * * new\n", "");
        check("SELECT count(*) FROM sched.schedule", "4");
    }

    #[pg_test]
    fn a_bad_line_stops_no_other() {
        let shown = import("61 * * * * a\n0 0 * * * b\n@reboot c\n0 0 * *\nCRON_TZ=Mars/Olympus\n0 0 * * * d\nCRON_TZ=Europe/Berlin\n0 0 * * * e\n", "");
        let rows: Vec<Vec<&str>> = shown.lines().map(|row| row.split('|').collect()).collect();
        let lines: Vec<&str> = rows.iter().map(|row| row[0]).collect();
        assert_eq!(lines, ["1", "2", "3", "4", "6", "8"]);
        for row in &rows {
            let read = ["2", "8"].contains(&row[0]);
            assert_eq!(row[4].is_empty(), read, "{row:?}");
            assert_eq!(row[1].is_empty() && row[2].is_empty() && row[3].is_empty(), !read, "{row:?}");
            assert!(read || row[4].ends_with('.'), "{row:?}");
        }
        assert!(rows[4][4].contains("Mars/Olympus"), "{shown}");
        check("SELECT time_zone FROM sched.schedule ORDER BY payload ->> 'command'", "UTC\nEurope/Berlin");
    }

    #[pg_test]
    fn zones_in_order_of_precedence() {
        import(
            "0 1 * * * a\nTZ=Asia/Tokyo\n0 2 * * * b\nCRON_TZ=Europe/Berlin\n0 3 * * * c\n",
            ", time_zone => 'America/New_York'",
        );
        check(
            "SELECT string_agg(time_zone, ' ' ORDER BY clock) FROM sched.schedule",
            "America/New_York Asia/Tokyo Europe/Berlin",
        );
    }

    #[pg_test]
    fn a_table_of_the_other_style_has_a_note_on_each_line() {
        for (text, more, note) in [
            ("17 * * * * root cd /\n@daily www-data php x\n", "", "%system => true%"),
            ("17 * * * * cd /\n@daily php x\n", ", system => true", "%without system => true%"),
        ] {
            let rows = format!("FROM sched.import_crontab({}{more})", quote(text));
            check(
                &format!("SELECT count(*), bool_and(note LIKE '{note}' AND schedule_name IS NOT NULL) {rows}"),
                "2|t",
            );
        }
        check("SELECT count(*) FROM sched.import_crontab(E'17 * * * * cd /\n@daily php x') WHERE note IS NULL", "2");
        // Nothing is made of what cron reads otherwise than it is meant.
        let misread = "CRON_TZ=UTC 0 3 * * * x\n*/10 * * * * * x\n";
        let rows = format!("FROM sched.import_crontab({})", quote(misread));
        check(&format!("SELECT count(*), bool_and(note IS NOT NULL AND schedule_name IS NULL) {rows}"), "2|t");
    }

    #[pg_test]
    fn crontab_bad_arguments() {
        for (arguments, sqlstate) in [
            ("NULL", "22004"),
            ("'@daily a', system => NULL", "22004"),
            ("'@daily a', time_zone => 'Mars/Olympus'", "22023"),
            ("repeat('# ', 524288) || '#'", "54000"),
        ] {
            refused(&format!("SELECT * FROM sched.import_crontab({arguments})"), sqlstate);
        }
        refused("SELECT * FROM sched.import_from('crontab')", "22023");
        for nothing in ["", "\n\n", "# only a comment", "A=b"] {
            assert_eq!(import(nothing, ""), "");
        }
        check("SELECT count(*) FROM sched.job", "0");
    }

    #[pg_test]
    fn the_tables_of_real_packages() {
        let manifest = include_str!("../data/crontabs/MANIFEST.tsv").lines().skip(1);
        let listed: Vec<String> = manifest
            .map(|line| line.split('\t').collect::<Vec<_>>())
            .map(|columns| format!("{}/{}", columns[0], columns[2].rsplit('/').next().unwrap_or_default()))
            .collect();
        assert_eq!(listed, TABLES.iter().map(|table| table.0).collect::<Vec<_>>(), "TABLES is the manifest");
        let mut shown = Vec::new();
        for (name, system, text) in TABLES {
            let rows = import(text, &format!(", system => {system}"));
            if !name.starts_with("user/") {
                let active = |line: &&str| {
                    !line.trim().is_empty()
                        && !line.trim_start().starts_with('#')
                        && !line.split([' ', '\t']).next().unwrap_or_default().contains('=')
                };
                let expected = text.lines().filter(active).count();
                let read = rows.lines().filter(|row| row.ends_with('|')).count();
                assert!(read <= expected && rows.lines().count() >= read, "{name}: {rows}");
            }
            shown.push(rows);
        }
        let schedules: usize = sql("SELECT count(*) FROM sched.schedule").parse().unwrap_or_default();
        assert!(schedules >= 60, "{schedules}");
        // At a full minute some of them fire.
        run(&["SELECT sched.dispatch_due()"]);
        check("SELECT count(*) FROM sched.schedules WHERE state NOT IN ('armed', 'done')", "0");
        for ((_, system, text), before) in TABLES.iter().zip(shown) {
            assert_eq!(import(text, &format!(", system => {system}")), before);
        }
        check(
            "SELECT count(*), max(version), (SELECT count(*) FROM sched.schedule_change) FROM sched.schedule",
            &format!("{schedules}|1|0"),
        );
    }
}
