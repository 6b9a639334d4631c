//! The parent: it starts the workers, kills them, restarts the server, and finally reads everything.

mod encryption;
mod ledger;
mod people;
mod plan;
mod pool;
mod report;
mod verify;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use tokio::runtime::Runtime;
use tower_chat_history::BoxError;

use self::{
    encryption::Encryption,
    ledger::Ledger,
    plan::{Disruption, Plan},
    pool::{Event, WorkerPool, WorkerSettings},
    report::Report,
};
use crate::{
    deployment::{Deployment, Kind},
    rng::SeededRng,
    store::{self, Limits},
};

/// The limit of file checks during a run: checking a large file takes long.
const FILE_CHECKS: u64 = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    #[arg(long, value_enum, default_value = "sqlite")]
    store: Kind,
    /// The number of processes that chat at the same time.
    #[arg(long, default_value_t = 4)]
    processes: u64,
    /// The number of concurrent turns in each process.
    #[arg(long, default_value_t = 8)]
    lanes: usize,
    #[arg(long, default_value_t = 20)]
    conversations: u32,
    /// The minimum number of acknowledged exchanges.
    #[arg(long, default_value_t = 1_000)]
    exchanges: u64,
    /// The minimum number of late calls for removed conversations that are refused.
    #[arg(long, default_value_t = 0)]
    late_calls: u64,
    /// The number of processes to kill.
    #[arg(long, default_value_t = 10)]
    kills: u64,
    /// The number of times that the server, or one node of a cluster, is crashed and restarted. If it is not
    /// 0, the whole server is restarted once more before everything is read. SQLite has no server.
    #[arg(long, default_value_t = 0)]
    restarts: u64,
    /// The seed of all random decisions [default: the time in milliseconds].
    #[arg(long)]
    seed: Option<u64>,
    /// Connects the workers directly to the server, without delays and cut connections.
    #[arg(long)]
    no_proxy: bool,
    /// Kills the first processes while they open the store.
    #[arg(long)]
    kill_first: bool,
    /// Encrypts everything, and replaces the keys of people again and again.
    #[arg(long)]
    encrypted: bool,
}

/// The state of a run.
struct Run<'a> {
    args: &'a Settings,
    deployment: Deployment,
    pool: WorkerPool,
    ledger: Ledger,
    plan: Plan,
    rng: SeededRng,
    kills: u64,
    restarts: u64,
    file_checks: u64,
    /// The killed workers whose remaining output is still to be read.
    killed: Vec<u32>,
}

/// Runs the test and prints the report. The exit code is success if there are no violations.
pub(crate) fn run(args: &Settings, runtime: &Runtime) -> Result<ExitCode, BoxError> {
    let seed = args.seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.as_millis()).unwrap_or_default()
    });
    eprintln!("seed: {seed}");
    let mut rng = SeededRng::new(seed);
    let deployment = Deployment::start(args.store, !args.no_proxy, rng.fork(), runtime);
    let encryption = args.encrypted.then(|| Encryption::start(runtime));
    let url_of = |url: &str| encryption.as_ref().map_or_else(|| url.to_owned(), |encryption| encryption.url(url));
    let settings = WorkerSettings {
        store: url_of(deployment.through_proxy()),
        conversations: args.conversations,
        lanes: args.lanes,
    };
    let pool = WorkerPool::new(settings, rng.fork());
    let plan = Plan::new(args.exchanges, args.processes, args.kills, args.restarts, &mut rng);
    let ledger = Ledger::default();
    let mut run =
        Run { args, deployment, pool, ledger, plan, rng, kills: 0, restarts: 0, file_checks: 0, killed: Vec::new() };
    let began = Instant::now();
    run.work();
    let running = began.elapsed();

    let Run { mut deployment, pool, mut ledger, kills, mut restarts, .. } = run;
    drop(pool);
    let faults = deployment.faults();
    // Every acknowledged exchange must be on disk.
    deployment.stop_faults();
    if args.restarts > 0 {
        restarts += deployment.crash_and_restart_all();
    }
    ledger.violations.extend(deployment.check_file().err());
    let rotations = encryption.as_ref().map_or(0, Encryption::stop);
    let began = Instant::now();
    let found = runtime.block_on(async {
        let store = store::open(&url_of(deployment.direct()), Limits::Patient).await?;
        let mut of_people = verify::Found::default();
        people::check(&store, &ledger.people, &mut of_people).await;
        // The chats come after the erasures, which must not have touched them.
        let mut found = verify::all(&store, args.conversations, &ledger).await;
        found.violations.append(&mut of_people.violations);
        (found.people, found.interrupted) = (of_people.people, of_people.interrupted);
        Ok::<_, BoxError>(found)
    })?;
    let reading = began.elapsed();
    let store = format!("{:?}, {} processes, {} conversations", args.store, args.processes, args.conversations);
    let report =
        Report { store, seed, ledger: &ledger, found: &found, faults, kills, restarts, rotations, running, reading };
    print!("{report}");
    Ok(if report.violations() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Run<'_> {
    /// Runs the workers until all exchanges are acknowledged and all disruptions are done.
    fn work(&mut self) {
        self.start();
        if self.args.kill_first {
            self.kill_first();
        }
        let mut shown = 0;
        let mut stopping = false;
        while self.pool.len() > 0 || !self.killed.is_empty() {
            let Some((worker, event)) = self.pool.event() else {
                self.ledger.violations.push("no worker made progress".to_owned());
                return;
            };
            self.note(worker, event);
            while let Some(disruption) = self.plan.due(self.ledger.acknowledged) {
                self.disrupt(disruption);
            }
            let tenth = self.ledger.acknowledged * 10 / self.args.exchanges.max(1);
            if tenth > shown {
                shown = tenth;
                let (kills, restarts) = (self.kills, self.restarts);
                eprintln!("{} acknowledged, {kills} killed, {restarts} restarts", self.ledger.acknowledged);
            }
            let is_enough =
                self.ledger.acknowledged >= self.args.exchanges && self.ledger.people.refused >= self.args.late_calls;
            if !stopping && self.plan.is_done() && is_enough {
                stopping = true;
                self.pool.stop();
            }
        }
    }

    /// Starts all workers first, so that they begin at the same moment.
    fn start(&mut self) {
        let started: Vec<u32> = (0..self.args.processes).map(|_| self.pool.start()).collect();
        started.into_iter().for_each(|number| self.pool.go(number, &[]));
    }

    /// Kills the workers while they open the store.
    fn kill_first(&mut self) {
        // Long enough for some workers to have begun to open it.
        std::thread::sleep(self.rng.duration(Duration::from_millis(60)));
        let victims = self.pool.kill(usize::MAX);
        self.kills += victims.len() as u64;
        self.replace_killed(victims);
    }

    fn note(&mut self, worker: u32, event: Event) {
        match event {
            Event::Line(line) => drop(self.ledger.note(worker, &line)),
            Event::Ended => {
                self.killed.retain(|killed| *killed != worker);
                self.ledger.violations.extend(self.pool.ended(worker).err());
            }
        }
    }

    fn disrupt(&mut self, disruption: Disruption) {
        match disruption {
            Disruption::Restart => self.restarts += self.deployment.crash_and_restart(),
            Disruption::Kill(victims) => {
                let victims = self.pool.kill(usize::try_from(victims).unwrap_or(usize::MAX));
                self.kills += victims.len() as u64;
                if self.pool.len() == 0 && self.file_checks < FILE_CHECKS {
                    self.file_checks += 1;
                    self.ledger.violations.extend(self.deployment.check_file().err());
                }
                self.replace_killed(victims);
            }
        }
    }

    /// Reads the remaining output of killed workers, and starts others that take over their exchanges.
    fn replace_killed(&mut self, victims: Vec<u32>) {
        self.killed.extend(&victims);
        while !self.killed.is_empty() {
            let Some((worker, event)) = self.pool.event() else { return };
            self.note(worker, event);
        }
        for victim in victims {
            let left = self.ledger.hand_over(victim, self.pool.next());
            let replacement = self.pool.start();
            self.pool.go(replacement, &left);
        }
    }
}
