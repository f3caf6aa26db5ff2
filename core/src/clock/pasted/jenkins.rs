//! Jenkins' `H`, a value that it makes of the job's name so that not all jobs begin at once.

use super::Meant;

const RULE: &str = "H spreads jobs, which the jitter of a schedule does here";

/// Whether a field has an `H` for a value.
pub(super) fn is_hashed(text: &str) -> bool {
    text.split_ascii_whitespace().any(is_hash)
}

fn is_hash(field: &str) -> bool {
    field.split(',').any(|item| {
        let after = item.strip_prefix('H').or_else(|| item.strip_prefix('h'));
        after.is_some_and(|after| after.is_empty() || after.starts_with(['/', '(']))
    })
}

/// The clock of five fields with an `H`: the first minute for `H`, and each n-th from there for `H/n`.
pub(super) fn meant(fields: &[&str]) -> Option<Meant> {
    let [minute, rest @ ..] = fields else { return None };
    if fields.len() != 5 || !fields.iter().any(|field| is_hash(field)) {
        return None;
    }
    let step = minute.get(1..).and_then(|after| after.strip_prefix('/'));
    let is_number = |step: &str| !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit());
    let first = match step {
        Some(step) if is_number(step) => format!("*/{step}"),
        None if minute.len() == 1 => "0".to_owned(),
        Some(_) | None => String::new(),
    };
    // (An hour or a day that Jenkins chooses is none that could be told.)
    if first.is_empty() || !is_hash(minute) || rest.iter().any(|field| is_hash(field)) {
        return Some(Meant::Sentence(
            "Jenkins chooses a value for each H: write one of those that it may choose, and let jitter spread the runs"
                .to_owned(),
        ));
    }
    Some(Meant::Clock(format!("{first} {}", rest.join(" ")), RULE))
}
