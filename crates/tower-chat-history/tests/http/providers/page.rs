//! The page itself: each of its rows names a test that exists.

use std::{
    fs,
    path::{Path, PathBuf},
};

const PAGE: &str = include_str!("../../../docs/providers.md");

/// Returns the rows of the tables whose last column has tests, each with the names in this column.
fn rows() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut rows = Vec::new();
    let mut has_tests = false;
    for line in PAGE.lines() {
        if line.ends_with("| test |") {
            has_tests = true;
        } else if !line.starts_with('|') {
            has_tests = false;
        } else if has_tests && !line.starts_with("|---") {
            let last = line.trim_end_matches('|').rsplit('|').next().unwrap();
            rows.push((line, last.split('`').skip(1).step_by(2).collect()));
        }
    }
    rows
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                found.push(path);
            }
        }
    }
}

/// Returns the names of the tests in this source.
fn tests(source: &str) -> Vec<&str> {
    let marked = source.split("::test]\n").skip(1).chain(source.split("#[test]\n").skip(1));
    let names = marked.filter_map(|rest| rest.split_once("fn ")?.1.split_once('('));
    names.map(|(name, _)| name).collect()
}

#[test]
fn each_row_names_tests_that_exist() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    for folder in ["tower-chat-history/tests/http", "tower-chat-history-openai/tests/it"] {
        sources(&crates.join(folder), &mut paths);
    }
    let sources: Vec<String> = paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let known: Vec<&str> = sources.iter().flat_map(|source| tests(source)).collect();
    let rows = rows();
    assert!(rows.len() >= 15, "the table was not found");
    for (row, named) in &rows {
        assert!(!named.is_empty(), "no test: {row}");
        for name in named {
            assert!(known.contains(name), "there is no test {name}: {row}");
        }
    }
    for name in tests(include_str!("mod.rs")) {
        assert!(rows.iter().any(|(_, named)| named.contains(&name)), "no row names {name}");
    }
}
