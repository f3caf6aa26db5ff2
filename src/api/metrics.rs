//! `metrics`, `openmetrics`.

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

/// The labels of a sample as a JSON object.
fn labels(sample: &Sample) -> Jsonb {
    let labels = sample.labels.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into()));
    Jsonb::parse(&serde_json::Value::Object(labels.collect()).to_string())
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
    TableIterator::new(collect().into_iter().map(|sample| {
        (sample.name(), labels(&sample), sample.family.kind().as_str(), sample.value, sample.family.help())
    }))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn openmetrics() -> String {
    encode(&collect())
}
