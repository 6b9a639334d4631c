//! The PostgreSQL store on a real server.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod answers;
mod calls;
mod contract;
mod cost;
mod crash;
mod failures;
mod limits;
mod opening;
mod proxy;
mod quiet;
mod rules;
mod settings;
mod support;
mod together;

use std::process::ExitCode;

use tests::servers::{self, postgres};

fn main() -> ExitCode {
    let tests = [
        answers::tests(),
        calls::tests(),
        contract::tests(),
        cost::tests(),
        crash::tests(),
        failures::tests(),
        limits::tests(),
        opening::tests(),
        quiet::tests(),
        rules::tests(),
        settings::tests(),
        together::tests(),
    ];
    servers::run(postgres::NAME, postgres::is_there(), tests.into_iter().flatten().collect())
}
