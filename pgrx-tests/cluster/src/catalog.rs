//! What a database's catalogs say of the extension, and how two of them differ: an updated extension has to be what a new one is.

use crate::tables::KEYS;
use postgres::Client;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Each object of the extension in all its particulars, one line for each.
pub fn facts(client: &mut Client) -> BTreeSet<String> {
    client.batch_execute("set search_path = pg_catalog").unwrap();
    let rows = client.query(include_str!("catalog.sql"), &[]).unwrap_or_else(|error| panic!("catalog.sql: {error:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}

/// The facts that only one of the two has; empty where they are equal.
pub fn difference(what: [&str; 2], one: &BTreeSet<String>, other: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for (only, line) in
        one.difference(other).map(|line| (what[0], line)).chain(other.difference(one).map(|line| (what[1], line)))
    {
        writeln!(text, "only {only}: {line}").unwrap();
    }
    text
}

/// For this session only: relations and types with the names of ours and of the catalogs'.
pub fn temporary() -> String {
    let ours = KEYS.map(|(table, _)| table).join(",");
    format!(
        r#"
    do $plant$
    declare name text;
    begin
        foreach name in array '{{{ours},late,alerts,monitor,fence,execution,
                                pg_class,pg_namespace,pg_roles,pg_proc,pg_extension,pg_authid}}'::text[] loop
            execute pg_catalog.format('create temp table %I ()', name);
        end loop;
        foreach name in array '{{text,uuid,interval,timestamptz,jsonb,json,bigint,int8,int4,boolean,bool,oid,regrole,regclass,name}}'::text[] loop
            begin
                execute pg_catalog.format('create domain pg_temp.%I as pg_catalog.int2 check (false)', name);
            exception when duplicate_object then null;
            end;
        end loop;
    end $plant$;
"#
    )
}
