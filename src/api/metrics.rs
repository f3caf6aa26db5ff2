//! `metrics`, `openmetrics`.

use pgrx::prelude::*;
use scheduler_core::metrics::{encode, Family, Sample};

use crate::metrics;
use crate::pg::jsonb::Jsonb;
use crate::pg::shared_text::SharedText;
use crate::pg::{as_owner, role};

use crate::api::result::TableIterator;
use crate::store::database_clock;

fn collect() -> Vec<Sample> {
    let reader = role::caller();
    as_owner(|owner| metrics::collect(owner, reader, database_clock::now()))
}

/// What all samples of a family have in common, of which one follows the other.
struct OfFamily {
    family: Family,
    /// The name for each suffix.
    names: Vec<(&'static str, SharedText)>,
    kind: SharedText,
    help: SharedText,
}

impl OfFamily {
    fn new(family: Family) -> OfFamily {
        let (kind, help) = (SharedText::of(family.kind().as_str()), SharedText::of(family.help()));
        OfFamily { family, names: Vec::new(), kind, help }
    }

    fn name(&mut self, sample: &Sample) -> SharedText {
        if let Some((_, name)) = self.names.iter().find(|(suffix, _)| *suffix == sample.suffix) {
            return *name;
        }
        let name = SharedText::of(&sample.name());
        self.names.push((sample.suffix, name));
        name
    }
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe, name = "metrics")]
fn metrics_rows() -> TableIterator<
    'static,
    (
        name!(name, SharedText),
        name!(labels, Jsonb),
        name!(kind, SharedText),
        name!(value, f64),
        name!(help, SharedText),
    ),
> {
    let mut known: Option<OfFamily> = None;
    TableIterator::new(collect().into_iter().map(move |sample| {
        let family = sample.family;
        let of_family = match known.take().filter(|known| known.family == family) {
            Some(of_family) => known.insert(of_family),
            None => known.insert(OfFamily::new(family)),
        };
        let labels: Vec<(&str, &str)> = sample.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
        (of_family.name(&sample), Jsonb::of_texts(&labels), of_family.kind, sample.value, of_family.help)
    }))
}

#[pg_extern(schema = "sched", volatile, parallel_unsafe)]
fn openmetrics() -> String {
    encode(&collect())
}
