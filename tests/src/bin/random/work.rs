//! A child process that runs cases. It reads lines of `scenario seed`, and answers each with one line.

use std::io::{BufRead as _, Write as _, stdin, stdout};

use tests::random::{Ingredients, count_panics, run_case, scenario};

pub(crate) fn work(ingredients: &Ingredients) {
    count_panics();
    for line in stdin().lock().lines() {
        let line = line.unwrap();
        let (name, seed) = line.split_once(' ').unwrap();
        let result = match run_case(scenario(name).unwrap(), seed.parse().unwrap(), ingredients) {
            Ok(figures) => {
                let figures: Vec<String> = figures.0.iter().map(|(name, number)| format!("{name}={number}")).collect();
                format!("fine {}", figures.join(";"))
            }
            Err(violation) => format!("violation {}", violation.to_string().escape_debug()),
        };
        let mut out = stdout().lock();
        writeln!(out, "{result}").unwrap();
        out.flush().unwrap();
    }
}
