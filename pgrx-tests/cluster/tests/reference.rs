//! `docs/reference/functions.md`, `views.md` and `settings.md` say what the catalog says. Their sections between the markers are made here
//! of a new extension: of its comments, arguments, types, defaults and settings. `make docs` writes them; without it the test compares.

use scheduler_cluster_tests::{bin, repository, Client, Cluster};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::{env, fs};

const BEGIN: &str = "<!-- catalog: begin; `make docs` writes what follows -->\n";
const END: &str = "<!-- catalog: end -->";

/// The arguments of what users call, and the columns that come back. What is in other schemas is none of it.
const FUNCTIONS: &str = "
    select p.proname::text, replace(pg_get_function_result(p.oid), 'timestamp with time zone', 'timestamptz'), coalesce(obj_description(p.oid, 'pg_proc'), ''), p.proretset,
           coalesce(a.name, ''), coalesce(a.mode, 'i'), replace(coalesce(format_type(a.type, null), ''), 'timestamp with time zone', 'timestamptz'),
           pg_get_function_arg_default(p.oid, a.place::integer), coalesce(a.place, 0)
      from pg_proc p
      left join lateral (
           select u.place, u.type, p.proargnames[u.place] as name, coalesce(p.proargmodes[u.place]::text, 'i') as mode
             from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as u (type, place)) as a on true
     where p.pronamespace = 'sched'::regnamespace
     order by p.proname, a.place";

const VIEWS: &str = "
    select c.relname::text, coalesce(obj_description(c.oid, 'pg_class'), ''), a.attname::text,
           replace(format_type(a.atttypid, a.atttypmod), 'timestamp with time zone', 'timestamptz'),
           coalesce(col_description(c.oid, a.attnum), '')
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relnamespace = 'sched'::regnamespace and c.relkind = 'v'
     order by c.relname, a.attnum";

const SETTINGS: &str = "
    select name, vartype, coalesce(unit, ''), coalesce(boot_val, ''), coalesce(min_val, ''), coalesce(max_val, ''), context,
           short_desc, coalesce(extra_desc, '')
      from pg_settings where name like 'sched.%' order by name";

#[test]
fn the_reference_is_what_the_catalog_says() {
    let cluster = Cluster::new();
    let mut db = cluster.with_extension("postgres");
    let bless = env::var("SCHEDULER_BLESS").is_ok();
    let made = [("functions", functions(&mut db)), ("views", views(&mut db)), ("settings", settings(&mut db))];
    for (page, section) in made {
        let path = repository().join(format!("docs/reference/{page}.md"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let (before, rest) = text.split_once(BEGIN).unwrap_or_else(|| panic!("{page}.md has no line {BEGIN}"));
        let (kept, after) = rest.split_once(END).unwrap_or_else(|| panic!("{page}.md has no line {END}"));
        if bless {
            fs::write(&path, format!("{before}{BEGIN}{section}{END}{after}")).unwrap();
        } else {
            assert!(kept == section, "docs/reference/{page}.md is not what the catalog says: make docs\n{section}");
        }
    }
}

/// Every function that the catalog has is in the overview above the list, and nothing else is.
#[test]
fn the_overview_names_every_function() {
    let page = fs::read_to_string(repository().join("docs/reference/functions.md")).unwrap();
    let (overview, list) = page.split_once(BEGIN).unwrap();
    let mut named: Vec<&str> = overview.split("](#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    named.sort_unstable();
    let listed: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(named, listed);
}

/// What `\df sched.*` and `\dv sched.*` show is what the pages list, and nothing else.
#[test]
fn psql_shows_users_what_the_reference_lists() {
    let cluster = Cluster::new();
    cluster.with_extension("postgres");
    for (command, page, heading) in [("\\df sched.*", "functions", "### "), ("\\dv sched.*", "views", "### sched.")] {
        let mut psql = cluster.client(Command::new(bin().join("psql")), "postgres", "postgres");
        let output = psql.args(["-X", "-A", "-t", "-c", command]).output().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        let mut shown: Vec<&str> = shown.lines().filter_map(|line| line.split('|').nth(1)).collect();
        shown.dedup();
        let text = fs::read_to_string(repository().join(format!("docs/reference/{page}.md"))).unwrap();
        let listed: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(heading)).collect();
        assert!(listed.len() >= 6, "{page}.md lists {listed:?}");
        assert_eq!(shown, listed, "{command} and docs/reference/{page}.md");
    }
}

fn functions(db: &mut Client) -> String {
    struct Function {
        result: String,
        comment: String,
        set: bool,
        arguments: Vec<[String; 3]>,
        columns: Vec<[String; 2]>,
    }
    let mut all: BTreeMap<String, Function> = BTreeMap::new();
    for row in db.query(FUNCTIONS, &[]).unwrap() {
        let [name, result, comment] = [row.get(0), row.get(1), row.get(2)];
        let new = || Function { result, comment, set: row.get(3), arguments: Vec::new(), columns: Vec::new() };
        let function = all.entry(name).or_insert_with(new);
        let (argument, mode, kind): (String, String, String) = (row.get(4), row.get(5), row.get(6));
        match mode.as_str() {
            _ if row.get::<_, i64>(8) == 0 => {}
            "i" => {
                let default: Option<String> = row.get(7);
                let default = default.map_or_else(|| "required".to_owned(), |default| format!("`{}`", plain(&default)));
                function.arguments.push([argument, kind, default]);
            }
            "t" | "o" => function.columns.push([argument, kind]),
            other => panic!("an argument of mode {other}"),
        }
    }
    let mut text = String::new();
    for (name, function) in all {
        let signature: Vec<&str> = function.arguments.iter().map(|[argument, ..]| argument.as_str()).collect();
        let signature = signature.join(", ");
        let result = match (function.set, function.columns.is_empty()) {
            (_, false) => "rows".to_owned(),
            (true, true) => function.result.replace("SETOF ", "rows of "),
            (false, true) => function.result.clone(),
        };
        writeln!(text, "### {name}\n\n`sched.{name}({signature})` → {result}\n").unwrap();
        assert!(!function.comment.is_empty(), "sched.{name} has no comment: sql/schema/90_grants.sql");
        let (what, errors) = split_errors(&function.comment);
        writeln!(text, "{what}\n").unwrap();
        if !function.arguments.is_empty() {
            text.push_str("| argument | type | default |\n| --- | --- | --- |\n");
            for [argument, kind, default] in &function.arguments {
                writeln!(text, "| `{argument}` | {kind} | {default} |").unwrap();
            }
            text.push('\n');
        }
        if !function.columns.is_empty() {
            text.push_str("| column | type |\n| --- | --- |\n");
            for [column, kind] in &function.columns {
                writeln!(text, "| `{column}` | {kind} |").unwrap();
            }
            text.push('\n');
        }
        if !errors.is_empty() {
            writeln!(text, "Errors:\n").unwrap();
            for error in errors {
                writeln!(text, "- {error}").unwrap();
            }
            text.push('\n');
        }
    }
    text
}

/// A comment without its last part, `Errors: 22023 (why), 42501.`, and that part as a list.
fn split_errors(comment: &str) -> (String, Vec<String>) {
    let found = ["Errors: ", "Error: "].iter().find_map(|word| comment.split_once(word));
    let Some((what, errors)) = found else { return (comment.trim().to_owned(), Vec::new()) };
    let mut list = vec![String::new()];
    let mut depth = 0;
    for c in errors.trim().trim_end_matches('.').chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' | ';' if depth == 0 => {
                list.push(String::new());
                continue;
            }
            _ => {}
        }
        list.last_mut().expect("it begins with one").push(c);
    }
    (what.trim().to_owned(), list.iter().map(|error| linked(error.trim())).collect())
}

/// The SQLSTATEs of a text as links to the page on errors.
fn linked(text: &str) -> String {
    let code = |word: &str| word.len() == 5 && word.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
    let (codes, why) = text.find('(').map_or((text, ""), |place| text.split_at(place));
    let link = |word: &str| format!("[{word}](errors.md#{})", word.to_lowercase());
    let words = codes.split(' ').map(|word| if code(word) { link(word) } else { word.to_owned() });
    format!("{}{why}", words.collect::<Vec<_>>().join(" "))
}

/// A default without the casts that the server adds to literals.
fn plain(default: &str) -> String {
    let is_of_type = |letter: char| letter.is_alphanumeric() || " _.[]".contains(letter);
    let mut parts = default.split("::");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(is_of_type))
}

fn views(db: &mut Client) -> String {
    let mut text = String::new();
    let mut last = String::new();
    for row in db.query(VIEWS, &[]).unwrap() {
        let [view, comment, column, kind, what]: [String; 5] = [0, 1, 2, 3, 4].map(|place| row.get(place));
        assert!(!what.is_empty(), "sched.{view}.{column} has no comment: sql/schema/55_columns.sql");
        if view != last {
            if !last.is_empty() {
                text.push('\n');
            }
            writeln!(
                text,
                "### sched.{view}\n\n{}\n\n| column | type | meaning |\n| --- | --- | --- |",
                sentence(&comment)
            )
            .unwrap();
            last = view;
        }
        writeln!(text, "| `{column}` | {kind} | {} |", what.replace('|', "\\|")).unwrap();
    }
    text.push('\n');
    text
}

/// A comment of a relation, which is no sentence, as one.
fn sentence(comment: &str) -> String {
    let mut letters = comment.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

fn settings(db: &mut Client) -> String {
    let mut text = String::new();
    for row in db.query(SETTINGS, &[]).unwrap() {
        let [name, kind, unit, default, least, most, context, what, more]: [String; 9] =
            [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|place| row.get(place));
        let value = |value: &str| if unit.is_empty() { value.to_owned() } else { in_units(value, &unit) };
        let default = if default.is_empty() { "empty".to_owned() } else { format!("`{}`", value(&default)) };
        let range =
            if least.is_empty() { String::new() } else { format!("; from `{}` to `{}`", value(&least), value(&most)) };
        let when = match context.as_str() {
            "sighup" => "at reload",
            "postmaster" => "at a restart only",
            // The value of the database: superusers and roles with the SET privilege change it.
            "superuser" => "from the database, within a second",
            other => other,
        };
        writeln!(text, "### {name}\n\n{what}").unwrap();
        if !more.is_empty() {
            writeln!(text, "{more}").unwrap();
        }
        writeln!(text, "\n- type: {kind}\n- default: {default}{range}\n- read: {when}\n").unwrap();
    }
    text
}

/// A length of time in the largest unit that it is a whole number of.
fn in_units(value: &str, unit: &str) -> String {
    let mut number: i64 = value.parse().unwrap_or_else(|_| panic!("{value} {unit}"));
    let larger = [("ms", 1000, "s"), ("s", 60, "min"), ("min", 60, "h"), ("h", 24, "d")];
    let mut unit = unit;
    for (from, factor, to) in larger {
        if unit == from && number != 0 && number % factor == 0 {
            (number, unit) = (number / factor, to);
        }
    }
    format!("{number} {unit}")
}

#[test]
fn how_comments_are_read() {
    assert_eq!(
        split_errors("Does it. Errors: 42704, 22023 (this, or that)."),
        (
            "Does it.".to_owned(),
            vec!["[42704](errors.md#42704)".to_owned(), "[22023](errors.md#22023) (this, or that)".to_owned()]
        )
    );
    assert_eq!(split_errors("Does it."), ("Does it.".to_owned(), Vec::new()));
    assert_eq!(in_units("60000", "ms"), "1 min");
    assert_eq!(in_units("1500", "ms"), "1500 ms");
    assert_eq!(in_units("2592000", "s"), "30 d");
}
