//! The processes of the workers.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use crate::{PATIENCE, exchange::Task, rng::SeededRng};

/// An event of a worker.
#[derive(Debug)]
pub(crate) enum Event {
    /// It wrote a line. An incomplete last line is not an event.
    Line(String),
    /// Its output has ended, and so has the process.
    Ended,
}

/// The settings that all workers share.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSettings {
    pub(crate) store: String,
    pub(crate) conversations: u32,
    pub(crate) lanes: usize,
}

/// The running workers.
pub(crate) struct WorkerPool {
    settings: WorkerSettings,
    rng: SeededRng,
    workers: BTreeMap<u32, Worker>,
    started: u32,
    events: Receiver<(u32, Event)>,
    sender: Sender<(u32, Event)>,
}

struct Worker {
    process: Child,
    stdin: ChildStdin,
}

impl WorkerPool {
    pub(crate) fn new(settings: WorkerSettings, rng: SeededRng) -> Self {
        let (sender, events) = channel();
        Self { settings, rng, workers: BTreeMap::new(), started: 0, events, sender }
    }

    /// Returns the number of the next worker.
    pub(crate) const fn next(&self) -> u32 {
        self.started
    }

    /// Starts a worker, which waits for its first orders. Returns its number.
    pub(crate) fn start(&mut self) -> u32 {
        let number = self.started;
        self.started += 1;
        let WorkerSettings { store, conversations, lanes } = &self.settings;
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["worker", "--store", store]);
        command.args(["--number", &number.to_string(), "--seed", &self.rng.next().to_string()]);
        command.args(["--conversations", &conversations.to_string(), "--lanes", &lanes.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let sender = self.sender.clone();
        // Read all the time: a full pipe would block the worker.
        thread::spawn(move || {
            let mut output = BufReader::new(stdout);
            let mut line = String::new();
            while output.read_line(&mut line).is_ok_and(|read| read > 0) {
                if let Some(complete) = line.strip_suffix('\n') {
                    // After a failed run, the receiver is gone.
                    drop(sender.send((number, Event::Line(complete.to_owned()))));
                }
                line.clear();
            }
            drop(sender.send((number, Event::Ended)));
        });
        self.workers.insert(number, Worker { process, stdin });
        number
    }

    /// Lets a worker repeat these exchanges and then begin new ones.
    pub(crate) fn go(&mut self, number: u32, repeats: &[Task]) {
        let lines: String = repeats.iter().map(|task| format!("{task}\n")).collect();
        self.send(number, &format!("{lines}go\n"));
    }

    /// Lets all workers finish what they are doing.
    pub(crate) fn stop(&mut self) {
        let all: Vec<u32> = self.workers.keys().copied().collect();
        all.into_iter().for_each(|number| self.send(number, "stop\n"));
    }

    fn send(&mut self, number: u32, line: &str) {
        if let Some(worker) = self.workers.get_mut(&number) {
            // If the worker has ended, `Event::Ended` follows.
            drop(worker.stdin.write_all(line.as_bytes()));
        }
    }

    /// Kills random workers (with SIGKILL on Unix). Returns their numbers.
    pub(crate) fn kill(&mut self, victims: usize) -> Vec<u32> {
        let mut killed = Vec::new();
        for _ in 0..victims.min(self.workers.len()) {
            let victim = *self.workers.keys().nth(self.rng.index(self.workers.len())).unwrap();
            let mut worker = self.workers.remove(&victim).unwrap();
            worker.process.kill().unwrap();
            worker.process.wait().unwrap();
            killed.push(victim);
        }
        killed
    }

    /// Waits for the next event. Returns `None` if nothing happens for too long.
    pub(crate) fn event(&self) -> Option<(u32, Event)> {
        // The channel cannot be disconnected, because `self` has a sender.
        self.events.recv_timeout(PATIENCE * 2).ok()
    }

    /// Removes a worker whose output has ended without a kill.
    ///
    /// # Errors
    ///
    /// Returns a description of the exit status, if it is not success.
    pub(crate) fn ended(&mut self, number: u32) -> Result<(), String> {
        let Some(mut worker) = self.workers.remove(&number) else { return Ok(()) };
        let status = worker.process.wait().unwrap();
        if status.success() { Ok(()) } else { Err(format!("worker {number} ended with {status}")) }
    }

    /// Returns the number of running workers.
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.kill(usize::MAX);
    }
}
