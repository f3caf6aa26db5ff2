//! `metrics`, `openmetrics`.

use std::collections::HashMap;

use pgrx::prelude::*;
use scheduler_core::metrics::{encode, Sample};

use crate::metrics;
use crate::pg::jsonb::Jsonb;
use crate::pg::{as_owner, convert, role};

use crate::api::result::TableIterator;

fn collect() -> Vec<Sample> {
    let reader = role::caller();
    as_owner(|owner| metrics::collect(owner, reader, convert::now()))
}

/// Labels as JSON objects. Families have them in common: each is parsed once.
#[derive(Default)]
struct Labels(HashMap<Vec<(&'static str, String)>, Jsonb>);

impl Labels {
    fn of(&mut self, labels: Vec<(&'static str, String)>) -> Jsonb {
        let parse = |labels: &[(&'static str, String)]| {
            let mut text = String::from("{");
            for (number, (name, value)) in labels.iter().enumerate() {
                let comma = if number == 0 { "" } else { ", " };
                text.push_str(&format!("{comma}\"{name}\": {}", serde_json::Value::from(value.as_str())));
            }
            Jsonb::parse(&(text + "}"))
        };
        self.0.entry(labels).or_insert_with_key(|labels| parse(labels)).clone()
    }
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe, name = "metrics")]
fn metrics_rows() -> TableIterator<
    'static,
    (
        name!(name, String),
        name!(labels, Jsonb),
        name!(kind, &'static str),
        name!(value, f64),
        name!(help, &'static str),
    ),
> {
    let mut known = Labels::default();
    TableIterator::new(collect().into_iter().map(move |sample| {
        let (name, kind, help) = (sample.name(), sample.family.kind().as_str(), sample.family.help());
        (name, known.of(sample.labels), kind, sample.value, help)
    }))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn openmetrics() -> String {
    encode(&collect())
}
