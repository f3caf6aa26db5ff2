//! Beside the picture: what is open, and how the scheduler itself is.

use std::fmt::Write as _;

use crate::health::Severity;
use crate::keyword::Keyword;
use crate::time::units::duration;

use super::axis::Axis;
use super::problems;
use super::rows::{Alert, Health};
use super::wording::number;

/// How many alerts the page names.
const MOST: usize = 50;

/// Writes both cards.
pub(super) fn draw(out: &mut String, health: &[Health], alerts: Option<&[Alert]>, axis: &Axis<'_>) {
    out.push_str("<aside>");
    if let Some(alerts) = alerts {
        draw_alerts(out, alerts, axis);
    }
    draw_health(out, health, axis);
    out.push_str("</aside>");
}

fn draw_alerts(out: &mut String, alerts: &[Alert], axis: &Axis<'_>) {
    let (mut resolved, mut alerts): (Vec<&Alert>, Vec<&Alert>) =
        alerts.iter().partition(|alert| alert.resolved_at.is_some());
    // What somebody has acknowledged comes last.
    alerts.sort_by_key(|alert| (alert.acknowledged_until.is_some(), std::cmp::Reverse(alert.since)));
    let class = if alerts.iter().any(|alert| alert.acknowledged_until.is_none()) { "card bad" } else { "card" };
    let _ = write!(out, r#"<section class="{class}"><h2>Open alerts <b>{}</b></h2>"#, number(alerts.len() as u64));
    if alerts.is_empty() {
        out.push_str("<p>None.</p>");
    }
    list(out, &alerts, axis);
    out.push_str("</section>");
    if !resolved.is_empty() {
        resolved.sort_by_key(|alert| std::cmp::Reverse(alert.resolved_at));
        let _ = write!(
            out,
            r#"<section class="card resolved"><h2>Resolved alerts <b>{}</b></h2>"#,
            number(resolved.len() as u64)
        );
        list(out, &resolved, axis);
        out.push_str("</section>");
    }
}

fn list(out: &mut String, alerts: &[&Alert], axis: &Axis<'_>) {
    if alerts.is_empty() {
        return;
    }
    out.push_str("<ul>");
    for alert in alerts.iter().take(MOST) {
        let class = match (alert.resolved_at, alert.acknowledged_until) {
            (None, None) => "open",
            (Some(_), _) | (None, Some(_)) => "known",
        };
        let _ = write!(
            out,
            r#"<li class="{class}"><strong>{}</strong> {}<small>since {}"#,
            alert.kind.isolated(),
            alert.schedule_name.shortened(),
            axis.wall.moment(alert.since)
        );
        if let Some(at) = alert.resolved_at {
            let _ = write!(out, ", resolved {}", axis.wall.moment(at));
        }
        let _ = write!(out, "</small><p>{}</p>", words(alert, axis));
        if let Some(until) = alert.acknowledged_until {
            let _ = write!(out, "<small>acknowledged until {}</small>", axis.wall.moment(until));
        }
        out.push_str("</li>");
    }
    out.push_str("</ul>");
    if let Some(more) = alerts.len().checked_sub(MOST).filter(|more| *more != 0) {
        let _ = write!(out, "<p>and {} more</p>", number(more as u64));
    }
}

/// What is so, in the zone and the units of the page; the message that the alert was opened with has others.
fn words(alert: &Alert, axis: &Axis<'_>) -> String {
    let of = alert.plan_time.map_or_else(String::new, |plan| format!(" of {}", axis.wall.moment(plan)));
    let limit = |before: &str| alert.limit.map_or_else(String::new, |limit| format!("{before}{}", duration(limit)));
    let mut words = match alert.kind.key() {
        "late" => format!("the run{of} had not begun in time{}", limit(": max_lateness is ")),
        "long" => format!("the run{of} took longer than it may{}", limit(": max_duration is ")),
        "no_success" => format!("no run has succeeded{}", limit(" for ")),
        "failed" => format!("the run{of} has failed for good"),
        "parked" => "it fires nothing before somebody puts it right".to_owned(),
        "failing" => "it cannot be fired, and is tried again".to_owned(),
        _ => alert.message.isolated().to_string(),
    };
    let cause = alert.cause.as_ref().map(problems::words).filter(|cause| !cause.is_empty());
    if let Some(cause) = cause {
        let _ = write!(words, ". {cause}");
    }
    words
}

fn draw_health(out: &mut String, health: &[Health], axis: &Axis<'_>) {
    let mut faults: Vec<&Health> = health.iter().filter(|row| row.severity != Severity::Ok).collect();
    faults.sort_by_key(|row| row.severity == Severity::Warning);
    let class = if faults.is_empty() { "card" } else { "card bad" };
    let _ = write!(out, r#"<section class="{class}"><h2>Health</h2>"#);
    if health.is_empty() {
        out.push_str("<p>Not known.</p>");
    } else if faults.is_empty() {
        let _ = write!(out, "<p>All {} checks are ok.</p>", health.len());
    }
    out.push_str("<ul>");
    for row in faults {
        let _ = write!(
            out,
            r#"<li class="{0}"><strong>{1}</strong> <i>{0}</i>"#,
            row.severity.as_str(),
            row.component.isolated()
        );
        if let Some(since) = row.since {
            let ago = duration(axis.view.now.as_micros().saturating_sub(since.as_micros()));
            let _ = write!(out, "<small>for {ago}</small>");
        }
        let _ = write!(out, "<p>{}</p>", row.message.isolated());
        if !row.hint.is_empty() {
            let _ = write!(out, "<p class=\"hint\">{}</p>", row.hint.isolated());
        }
        out.push_str("</li>");
    }
    out.push_str("</ul>");
    let fine: Vec<String> = health
        .iter()
        .filter(|row| row.severity == Severity::Ok)
        .map(|row| row.component.isolated().to_string())
        .collect();
    if !fine.is_empty() {
        let _ = write!(out, r#"<p class="fine"><span>ok</span> {}</p>"#, fine.join(", "));
    }
    out.push_str("</section>");
}
