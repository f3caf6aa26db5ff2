//! Tables that are probably of the other style: in a system table a user name stands before the command.

use super::assignment;
use super::entry::{Style, BLANKS};
use super::fields::{split_clock, split_word};

/// Users of Debian, Red Hat and Alpine who have lines in the system tables of packages and of machines.
const USERS: [&str; 44] = [
    "root",
    "www-data",
    "nobody",
    "daemon",
    "postgres",
    "mysql",
    "apache",
    "nginx",
    "httpd",
    "git",
    "mail",
    "news",
    "list",
    "backup",
    "man",
    "games",
    "sync",
    "uucp",
    "operator",
    "amavis",
    "amanda",
    "mailman",
    "logcheck",
    "munin",
    "nagios",
    "icinga",
    "zabbix",
    "redis",
    "mongodb",
    "elasticsearch",
    "jenkins",
    "gitlab",
    "ubuntu",
    "debian",
    "admin",
    "deploy",
    "app",
    "celery",
    "django",
    "clamav",
    "smmsp",
    "vmail",
    "nextcloud",
    "tomcat",
];

/// Programs with which the commands of crontabs begin.
const PROGRAMS: [&str; 73] = [
    "[",
    "test",
    "cd",
    "echo",
    "printf",
    "exit",
    "true",
    "false",
    "export",
    "source",
    "if",
    "for",
    "while",
    "env",
    "exec",
    "eval",
    "command",
    "nice",
    "ionice",
    "flock",
    "timeout",
    "sudo",
    "su",
    "sh",
    "bash",
    "zsh",
    "dash",
    "ksh",
    "python",
    "python2",
    "python3",
    "perl",
    "ruby",
    "node",
    "php",
    "java",
    "bundle",
    "rake",
    "npm",
    "make",
    "find",
    "rm",
    "cp",
    "mv",
    "mkdir",
    "touch",
    "cat",
    "tar",
    "gzip",
    "rsync",
    "scp",
    "ssh",
    "curl",
    "wget",
    "run-parts",
    "logrotate",
    "certbot",
    "mysql",
    "mysqldump",
    "psql",
    "pg_dump",
    "pg_dumpall",
    "vacuumdb",
    "mongodump",
    "docker",
    "docker-compose",
    "kubectl",
    "aws",
    "systemctl",
    "service",
    "apt-get",
    "date",
    "sleep",
];

/// What to say of a table that is probably of the other style: the sixth field of all its entries is a usual user name where a command should be, or
/// begins a command where a user name should be.
pub fn doubt(text: &str, style: Style) -> Option<String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().map(|line| line.trim_end_matches('\r').trim_start_matches(BLANKS));
    let sixth: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#') && assignment::read(line).is_none())
        .filter_map(|line| split_clock(line).ok())
        .map(|(_, rest)| split_word(rest).0)
        .collect();
    let first = sixth.first()?;
    match style {
        // Some names are both.
        Style::User if sixth.iter().all(|word| USERS.contains(word)) => Some(format!(
            "\"{first}\" is probably a user, not a command: each line of this crontab has a user name there. Drop these schedules, and import a \
             system crontab with system => true"
        )),
        Style::System if sixth.iter().all(|word| begins_command(word)) => Some(format!(
            "\"{first}\" probably begins the command, and is no user: no line of this crontab has a user name there. Drop these schedules, and \
             import a user's crontab without system => true"
        )),
        Style::User | Style::System => None,
    }
}

/// Whether a word is a program, a path, a variable or the like.
fn begins_command(word: &str) -> bool {
    PROGRAMS.contains(&word)
        || word.contains(['/', '.', '$', '=', '"', '\'', '`', '(', '{', '[', ';', '&', '|', '<', '>', '~'])
}
