//! The child processes that run the cases, and the results of all cases.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, ExitCode, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use tests::random::Figures;

use crate::Args;

/// The cases to run, and their results so far.
struct Plan<'a> {
    args: &'a Args,
    first: u64,
    next: AtomicU64,
    begun: Instant,
    stopped: AtomicBool,
    results: Mutex<Results>,
}

#[derive(Default)]
struct Results {
    /// For each scenario: the number of cases, their total time, and their figures.
    done: BTreeMap<String, (u64, Duration, Figures)>,
    violations: Vec<String>,
}

pub(crate) fn run(args: &Args, first: u64) -> ExitCode {
    let plan = Plan {
        args,
        first,
        next: AtomicU64::new(0),
        begun: Instant::now(),
        stopped: AtomicBool::new(false),
        results: Mutex::default(),
    };
    thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| plan.serve());
        }
    });
    plan.report()
}

impl Plan<'_> {
    /// Returns the next case. The scenarios take turns.
    fn next(&self) -> Option<(&str, u64)> {
        if self.stopped.load(Relaxed) {
            return None;
        }
        let number = self.next.fetch_add(1, Relaxed);
        let scenarios = self.args.scenarios.len() as u64;
        let scenario = &self.args.scenarios[usize::try_from(number % scenarios).ok()?];
        let round = number / scenarios;
        let given = self.args.seeds.len() as u64;
        if round < given {
            return Some((scenario, self.args.seeds[usize::try_from(round).ok()?]));
        }
        // Without `--cases`, given seeds are the only ones.
        let goes_on = match self.args.cases {
            Some(cases) => round - given < cases,
            None => given == 0 && self.begun.elapsed() < Duration::from_secs(self.args.seconds),
        };
        goes_on.then(|| (scenario.as_str(), self.first + round - given))
    }

    /// Gives cases to one process, and starts another process if that one ends.
    fn serve(&self) {
        let mut worker: Option<Worker> = None;
        while let Some((scenario, seed)) = self.next() {
            let begun = Instant::now();
            let current = worker.get_or_insert_with(|| Worker::start(self.args));
            let result = current.case(scenario, seed, Duration::from_secs(self.args.patience));
            let violation = match result {
                CaseResult::Passed(figures) => {
                    self.done(scenario, begun.elapsed(), &figures);
                    continue;
                }
                CaseResult::Violation(text) => text,
                CaseResult::Died(how) => {
                    worker = None;
                    format!("the process died: {how}")
                }
                CaseResult::TimedOut => {
                    worker = None;
                    format!("the case did not end within {} s", self.args.patience)
                }
            };
            self.found(format!("{scenario} --seed {seed}: {violation}"));
        }
    }

    fn done(&self, scenario: &str, took: Duration, figures: &Figures) {
        let mut results = self.results.lock().unwrap();
        let (cases, time, all) = results.done.entry(scenario.to_owned()).or_default();
        *cases += 1;
        *time += took;
        all.join(figures);
    }

    fn found(&self, violation: String) {
        println!("VIOLATION after {:.1} s: --scenario {violation}", self.begun.elapsed().as_secs_f64());
        self.results.lock().unwrap().violations.push(violation);
        if !self.args.keep_going {
            self.stopped.store(true, Relaxed);
        }
    }

    fn report(&self) -> ExitCode {
        let results = self.results.lock().unwrap();
        println!("first new seed: {}", self.first);
        for (scenario, (cases, time, Figures(figures))) in &results.done {
            println!("{scenario}: {cases} cases in {:.1} s", time.as_secs_f64());
            figures.iter().for_each(|(name, number)| println!("    {number:>10} {name}"));
        }
        println!("violations: {}", results.violations.len());
        if results.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// The answer of a process to a case.
enum CaseResult {
    Passed(Figures),
    Violation(String),
    Died(String),
    TimedOut,
}

struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Worker {
    fn start(args: &Args) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("--worker");
        let names =
            |list: &[tests::random::Ingredient]| list.iter().map(|one| one.name()).collect::<Vec<_>>().join(",");
        match &args.only {
            Some(only) if only.is_empty() => {
                command.args(["--without", &names(tests::random::Ingredient::ALL)]);
            }
            Some(only) => {
                command.args(["--only", &names(only)]);
            }
            None if args.without.is_empty() => {}
            None => {
                command.args(["--without", &names(&args.without)]);
            }
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut output = BufReader::new(output).lines();
            while let Some(Ok(line)) = output.next() {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, stdin, lines }
    }

    fn case(&mut self, scenario: &str, seed: u64, patience: Duration) -> CaseResult {
        // Writing fails if the process has died. The match below finds that.
        let _ = writeln!(self.stdin, "{scenario} {seed}");
        match self.lines.recv_timeout(patience) {
            Ok(line) => match line.split_once(' ') {
                Some(("violation", text)) => CaseResult::Violation(text.to_owned()),
                Some((_, figures)) => CaseResult::Passed(read(figures)),
                None => CaseResult::Violation(line),
            },
            Err(RecvTimeoutError::Timeout) => CaseResult::TimedOut,
            Err(RecvTimeoutError::Disconnected) => {
                CaseResult::Died(self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string()))
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(figures: &str) -> Figures {
    let pairs = figures.split(';').filter_map(|pair| pair.split_once('='));
    Figures(pairs.filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?))).collect())
}
