//! Beside the picture: what is open, and how the scheduler itself is.

use std::fmt::Write as _;

use crate::health::Severity;
use crate::keyword::Keyword;

use super::axis::Axis;
use super::rows::{Alert, Health};
use super::wording::{duration, number};

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
    let mut alerts: Vec<&Alert> = alerts.iter().collect();
    // What somebody has acknowledged comes last.
    alerts.sort_by_key(|alert| (alert.acknowledged_until.is_some(), std::cmp::Reverse(alert.since)));
    let class = if alerts.iter().any(|alert| alert.acknowledged_until.is_none()) { "card bad" } else { "card" };
    let _ = write!(out, r#"<section class="{class}"><h2>Open alerts <b>{}</b></h2>"#, number(alerts.len() as u64));
    if alerts.is_empty() {
        out.push_str("<p>None.</p></section>");
        return;
    }
    out.push_str("<ul>");
    for alert in alerts.iter().take(MOST) {
        let class = if alert.acknowledged_until.is_some() { "known" } else { "open" };
        let _ = write!(
            out,
            r#"<li class="{class}"><strong>{}</strong> {}<small>since {}</small><p>{}</p>"#,
            alert.kind.isolated(),
            alert.schedule_name.shortened(),
            axis.wall.moment(alert.since),
            alert.message.isolated()
        );
        if let Some(until) = alert.acknowledged_until {
            let _ = write!(out, "<small>acknowledged until {}</small>", axis.wall.moment(until));
        }
        out.push_str("</li>");
    }
    out.push_str("</ul>");
    if let Some(more) = alerts.len().checked_sub(MOST).filter(|more| *more != 0) {
        let _ = write!(out, "<p>and {} more</p>", number(more as u64));
    }
    out.push_str("</section>");
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
