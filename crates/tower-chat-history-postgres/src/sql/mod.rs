//! The statements of the calls. Each is one round trip. Most call a function of `schema/`.

mod changes;
mod counts;

use tokio_postgres::types::Type;

pub(crate) use self::{changes::Changes, counts::Counts};

/// A statement with the types of its parameters, so that the driver does not ask the server for them.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) types: Box<[Type]>,
}

/// The name of a function of the schema and the types of its parameters, one letter each (see [`types`]).
///
/// Every argument of a call has the declared type, including constants. With an untyped `null`, PostgreSQL would prefer
/// a function of the same name that takes a text there. Any role that may create objects in the schema could add one.
pub(crate) type Function = (&'static str, &'static str);

const LOAD: Function = ("load_1", "tttullltlli");
const READ: Function = ("read_1", "tlll");
const APPEND: Function = ("append_1", "itiulllutlllltltttllbb");
const COMPACT: Function = ("compact_1", "tuutllbb");
const FORK: Function = ("fork_1", "tutulllttlbb");
const LIST: Function = ("list_1", "tttl");
const SET_LABELS: Function = ("set_labels_1", "tulut");
const DELETE: Function = ("delete_1", "tu");
const BAR: Function = ("bar_1", "t");
/// It is called by `APPEND` and `FORK`.
const ERASED: Function = ("erased_1", "tl");
/// It is called by `APPEND` and `COMPACT`.
const PUT_COMPACTION: Function = ("put_compaction_1", "lutllbb");

/// All functions of the schema.
pub(crate) const FUNCTIONS: [Function; 11] =
    [LOAD, READ, APPEND, COMPACT, FORK, LIST, SET_LABELS, DELETE, BAR, ERASED, PUT_COMPACTION];

impl Statement {
    fn new(schema: &str, text: &str, letters: &str) -> Self {
        Self { text: in_schema(text, schema), types: types(letters) }
    }
}

/// Two forms of a call: a statement for one call, and one for a batch of calls.
///
/// The batched statement has an array for each parameter. The last column of each row is the number of its call in the
/// batch, counted from one. For one call, arrays cost more than they save. `unnest` of several arrays is part of the
/// grammar, so no search path can replace it.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) single: Statement,
    pub(crate) batched: Statement,
}

/// All statements, for the tables of one schema.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) load: Statements,
    pub(crate) read: Statement,
    pub(crate) append: Statements,
    pub(crate) compact: Statement,
    pub(crate) fork: Statement,
    pub(crate) list: Statement,
    pub(crate) set_labels: Statement,
    pub(crate) bar: Statement,
    pub(crate) delete: Statement,
    pub(crate) lock: Statement,
    pub(crate) lock_page: Statement,
    pub(crate) count: Counts,
    pub(crate) walk: Statement,
    pub(crate) sums_at: Statement,
    /// Finds a recalled message that cites another conversation.
    pub(crate) foreign: Statement,
    pub(crate) change: Changes,
}

impl Statements {
    /// Creates the calls of a function. `single` and `batched` are constants for the first arguments of each, or empty.
    fn new(schema: &str, (name, letters): Function, [single, batched]: [&str; 2]) -> Self {
        let letters = &letters[single.split_terminator(", ").count()..];
        let (given, each) = (list("$", letters), list("p", letters));
        let single = format!("select * from @.{name}({single}{given})");
        let batched = format!(
            "select (called.r).*, called.number from (select @.{name}({batched}{each}) as r, number \
             from unnest({given}) with ordinality u ({each}, number) offset 0) called"
        );
        Self {
            single: Statement::new(schema, &single, letters),
            batched: Statement::new(schema, &batched, &letters.to_uppercase()),
        }
    }
}

/// The columns of a conversation's row that are read in a transaction. See `rows`.
const CONVERSATION: &str = "select c.id, c.incarnation, c.len, c.first, c.messages, c.bytes, c.key, \
                            c.labels is not null from @.conversation c";

impl Sql {
    /// Creates the statements for a schema. Its name was checked, so it needs no escaping within quotes.
    pub(crate) fn new(schema: &str) -> Self {
        let statement = |text: &str, letters: &str| Statement::new(schema, text, letters);
        let call =
            |(name, letters): Function| statement(&format!("select * from @.{name}({})", list("$", letters)), letters);
        Self {
            load: Statements::new(schema, LOAD, ["", ""]),
            read: call(READ),
            // A batch has the rows of other conversations locked, so it waits only briefly for each one.
            append: Statements::new(schema, APPEND, ["null::int, ", "250, "]),
            compact: call(COMPACT),
            fork: call(FORK),
            list: call(LIST),
            set_labels: call(SET_LABELS),
            bar: call(BAR),
            delete: call(DELETE),
            lock: statement(&format!("{CONVERSATION} where c.key = $1 for update"), "t"),
            lock_page: statement(
                &format!("{CONVERSATION} where c.key > $1 and c.key < $2 order by c.key limit $3 for update"),
                "ttl",
            ),
            count: Counts::new(schema),
            walk: statement(
                "select e.seq, e.continues is null, e.messages from @.exchange e \
                 where e.conversation = $1 and e.seq >= $2 and e.seq < $3 order by e.seq desc limit 1000",
                "lll",
            ),
            sums_at: statement(
                "select e.messages_before + e.messages, e.bytes_before + e.bytes from @.exchange e \
                 where e.conversation = $1 and e.seq = $2",
                "ll",
            ),
            foreign: statement(
                "select 1 from @.exchange e where e.conversation = $1 and e.recalled_first < 0 limit 1",
                "l",
            ),
            change: Changes::new(schema),
        }
    }
}

/// Lists one parameter for each letter: the prefix and a number.
fn list(prefix: &str, letters: &str) -> String {
    (1..=letters.len()).map(|at| format!("{prefix}{at}")).collect::<Vec<_>>().join(", ")
}

/// Converts letters to types: text, bytes, int (4 bytes), long (8 bytes), uuid. A capital letter is an array of the
/// type.
pub(crate) fn types(letters: &str) -> Box<[Type]> {
    let of = |letter| match letter {
        't' => Some(Type::TEXT),
        'b' => Some(Type::BYTEA),
        'i' => Some(Type::INT4),
        'l' => Some(Type::INT8),
        'u' => Some(Type::UUID),
        'I' => Some(Type::INT4_ARRAY),
        'T' => Some(Type::TEXT_ARRAY),
        'B' => Some(Type::BYTEA_ARRAY),
        'L' => Some(Type::INT8_ARRAY),
        'U' => Some(Type::UUID_ARRAY),
        _ => None,
    };
    letters.chars().filter_map(of).collect()
}

/// Replaces `@` by the schema.
pub(crate) fn in_schema(text: &str, schema: &str) -> String {
    text.replace("@.", &format!("\"{schema}\"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = concat!(
        include_str!("../schema/step-1/reading.sql"),
        include_str!("../schema/step-1/writing.sql"),
        include_str!("../schema/step-1/compacting.sql"),
        include_str!("../schema/step-1/forking.sql"),
        include_str!("../schema/step-1/listing.sql"),
        include_str!("../schema/step-1/deleting.sql"),
    );

    /// Returns the functions that the SQL files create, in the form of [`FUNCTIONS`].
    fn created() -> Vec<(String, String)> {
        let function = |text: &str| {
            let (name, rest) = text.split_once('(').unwrap();
            let parameters = rest.split_once(')').unwrap().0.split(',').map(str::trim);
            let letters =
                parameters.filter(|parameter| !parameter.starts_with("out ")).map(|parameter| {
                    match parameter.split_once(' ').unwrap().1 {
                        "text" => 't',
                        "bytea" => 'b',
                        "int" => 'i',
                        "bigint" => 'l',
                        "uuid" => 'u',
                        "text[]" => 'T',
                        "bigint[]" => 'L',
                        other => panic!("{other}"),
                    }
                });
            (name.to_owned(), letters.collect())
        };
        SCHEMA.split("create function @.").skip(1).map(function).collect()
    }

    #[test]
    fn the_functions_are_those_of_the_schema() {
        let mut created = created();
        created.sort();
        let mut known = FUNCTIONS.map(|(name, letters)| (name.to_owned(), letters.to_owned()));
        known.sort();
        assert_eq!(created, known);
    }

    #[test]
    fn no_argument_of_a_call_is_without_a_type() {
        for (part, text) in SCHEMA.split("@.").skip(1).enumerate() {
            let Some((name, _)) = FUNCTIONS.iter().find(|(name, _)| text.starts_with(&format!("{name}("))) else {
                continue;
            };
            let arguments = text.split_once(") p;").map_or("", |(arguments, _)| arguments);
            assert!(!arguments.contains("null,") && !arguments.contains('\''), "{name} at {part}: {arguments}");
        }
        let sql = Sql::new("s");
        assert_eq!(sql.append.single.types.len(), APPEND.1.len() - 1);
        assert!(sql.append.single.text.contains("append_1(null::int, $1, "), "{}", sql.append.single.text);
        assert!(sql.append.batched.text.contains("append_1(250, p1, "), "{}", sql.append.batched.text);
    }
}
