//! Python programs that read prompts as servers do.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};

use super::kinds::ideal;

/// Something that a conversation can have, and that a reader may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    System,
    Tools,
    /// Parallel calls.
    Parallel,
    /// `reasoning_content`.
    Reasoning,
    Images,
}

impl Feature {
    const ALL: [Self; 5] = [Self::System, Self::Tools, Self::Parallel, Self::Reasoning, Self::Images];
}

/// A chat template or a validator.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    /// Its package and its name there.
    pub(crate) name: String,
    takes: Vec<Feature>,
}

impl Reader {
    /// Returns `true` if the reader takes a conversation without flaws that has this feature, and those before it that
    /// the reader takes.
    pub(crate) fn takes(&self, feature: Feature) -> bool {
        self.takes.contains(&feature)
    }

    /// Returns `true` if this is a chat template.
    pub(crate) fn is_template(&self) -> bool {
        !self.name.starts_with("mistral-common")
    }
}

/// All readers, in processes of their own. The processes end with this one, which closes their input.
#[derive(Clone, Debug)]
pub(crate) struct Readers {
    all: Arc<[Reader]>,
    processes: Arc<Mutex<HashMap<String, Arc<Mutex<Process>>>>>,
}

/// The readers that no test uses.
static IDLE: Mutex<Vec<Readers>> = Mutex::new(Vec::new());

/// Returns the folder into which `.ci/readers` installs the packages.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("readers")
}

impl Readers {
    pub(crate) fn are_installed() -> bool {
        !test_servers::is_without_servers() && folder().join("installed.txt").is_file()
    }

    /// Returns readers for one test. They are started if all others are in use.
    pub(crate) fn take() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(Self::start)
    }

    pub(crate) fn give_back(self) {
        IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    fn start() -> Self {
        let mut processes = HashMap::new();
        for (readers, package) in [("templates", None), ("mistral", None), ("mistral", Some("older"))] {
            let (process, names) = Process::start(readers, package);
            let process = Arc::new(Mutex::new(process));
            processes.extend(names.into_iter().map(|name| (name, Arc::clone(&process))));
        }

        let mut names: Vec<_> = processes.keys().cloned().collect();
        names.sort();
        let mut readers = Self { all: Arc::default(), processes: Arc::new(Mutex::new(processes)) };
        let mut all = Vec::new();
        for name in names {
            let (plain, _) = ideal(&[]);
            assert_eq!(readers.read(&name, &plain, &Value::Null), Ok(()), "{name} takes no conversation");
            let mut takes = Vec::new();
            for feature in Feature::ALL {
                takes.push(feature);
                let (messages, tools) = ideal(&takes);
                if readers.read(&name, &messages, &tools).is_err() {
                    takes.pop();
                }
            }
            all.push(Reader { name, takes });
        }
        readers.all = all.into();
        readers
    }

    pub(crate) fn all(&self) -> &[Reader] {
        &self.all
    }

    /// Has a reader read this prompt.
    ///
    /// # Errors
    ///
    /// The words of the reader, if it refuses the prompt.
    pub(crate) fn read(&self, reader: &str, messages: &Value, tools: &Value) -> Result<(), String> {
        let process = Arc::clone(&self.processes.lock().unwrap()[reader]);
        let answer = process.lock().unwrap().ask(&json!({"reader": reader, "messages": messages, "tools": tools}));
        match answer["refused"].as_str() {
            Some(words) => Err(words.to_owned()),
            None => Ok(()),
        }
    }
}

/// A process that answers lines of JSON.
#[derive(Debug)]
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts the program, with packages of this folder first. Returns the names of its readers, too.
    fn start(readers: &str, packages: Option<&str>) -> (Self, Vec<String>) {
        let mut command = Command::new(folder().join("bin/python"));
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("readers/reader.py")).arg(readers);
        if let Some(packages) = packages {
            command.env("PYTHONPATH", folder().join(packages));
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, input, output };
        let names = serde_json::from_value(process.line()).unwrap();
        (process, names)
    }

    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.input, "{request}").unwrap();
        self.line()
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("reader.py ended: {:?}", self.child.try_wait()))
    }
}
