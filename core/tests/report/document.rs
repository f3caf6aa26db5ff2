//! A page as parsers see it: the strict one of XML, and the one that browsers have for HTML.

use std::collections::BTreeMap;

use html5ever::tendril::TendrilSink as _;
use markup5ever_rcdom::RcDom;
use roxmltree::{Document, Node, ParsingOptions};

/// Parses a page both ways; neither may complain.
pub fn parse(page: &str) -> Document<'_> {
    let dom = html5ever::parse_document(RcDom::default(), Default::default()).one(page);
    assert!(dom.errors.borrow().is_empty(), "{:?}", dom.errors.borrow());
    read(page)
}

/// Parses a page as XML only, which is quick.
pub fn read(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{error}"))
}

/// The elements with this attribute, in the order of the page.
pub fn having<'a, 'input>(document: &'a Document<'input>, attribute: &str) -> Vec<Node<'a, 'input>> {
    document.descendants().filter(|node| node.has_attribute(attribute)).collect()
}

/// The elements of this class.
pub fn of_class<'a, 'input>(document: &'a Document<'input>, class: &str) -> Vec<Node<'a, 'input>> {
    let has = |node: &Node<'_, '_>| node.attribute("class").is_some_and(|all| all.split(' ').any(|one| one == class));
    document.descendants().filter(has).collect()
}

/// All text below a node, without that of tooltips.
pub fn text(node: Node<'_, '_>) -> String {
    let shown =
        |node: &Node<'_, '_>| node.ancestors().all(|above| !above.has_tag_name("title") && !is_svg_title(above));
    node.descendants().filter(|node| node.is_text() && shown(node)).filter_map(|node| node.text()).collect()
}

fn is_svg_title(node: Node<'_, '_>) -> bool {
    node.tag_name().name() == "title" && node.parent().is_some_and(|parent| parent.tag_name().name() != "head")
}

/// The marks of a row.
pub fn marks<'a, 'input>(row: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    row.descendants().filter(|node| node.has_attribute("data-verdict"))
}

pub fn count(mark: Node<'_, '_>) -> u64 {
    mark.attribute("data-count").map_or(1, |count| count.parse().unwrap())
}

/// How many plan times a row shows of each verdict.
pub fn counts(row: Node<'_, '_>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for mark in marks(row) {
        *counts.entry(mark.attribute("data-verdict").unwrap().to_owned()).or_insert(0) += count(mark);
    }
    counts
}

/// The row of a schedule.
pub fn row<'a, 'input>(document: &'a Document<'input>, name: &str) -> Node<'a, 'input> {
    let rows = having(document, "data-schedule");
    *rows.iter().find(|row| row.attribute("data-schedule") == Some(name)).unwrap_or_else(|| panic!("no row {name:?}"))
}

/// Every place of a page, in percent: where something stands, and where it ends.
pub fn places(document: &Document<'_>) -> Vec<f64> {
    let percent = |text: &str| text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let mut places = Vec::new();
    for node in document.descendants().filter(Node::is_element) {
        let of = |name: &str| node.attribute(name).and_then(percent);
        places.extend(["x", "x1", "x2"].iter().filter_map(|name| of(name)));
        places.extend(of("x").zip(of("width")).map(|(x, width)| x + width));
    }
    places
}
