//! The statements of the calls. Each is one round trip. Most call a function of `schema/`.
//!
//! # Decisions
//!
//! - **A function's name ends in a version**, so replicas of two versions run side by side.

use tokio_postgres::types::Type;

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

const LOAD: Function = ("load_1", "tttullltllli");
const READ: Function = ("read_1", "tlll");
const APPEND: Function = ("append_1", "itiulllutllllltltttllbb");
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

    /// Creates the call of a function.
    fn call(schema: &str, (name, letters): Function) -> Self {
        let parameters = list("$", letters);
        Self::new(schema, &format!("select * from @.{name}({parameters})"), letters)
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
        let given = list("$", letters);
        let each = list("p", letters);

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
const CONVERSATION: &str = "select c.id, c.incarnation, c.len, c.first, c.messages, c.bytes, c.media, \
                            c.key, c.labels is not null from @.conversation c";

impl Sql {
    /// Creates the statements for a schema. Its name was checked, so it needs no escaping within quotes.
    pub(crate) fn new(schema: &str) -> Self {
        Self {
            load: Statements::new(schema, LOAD, ["", ""]),
            read: Statement::call(schema, READ),
            // A batch has the rows of other conversations locked, so it waits only briefly for each one.
            append: Statements::new(schema, APPEND, ["null::int, ", "250, "]),
            compact: Statement::call(schema, COMPACT),
            fork: Statement::call(schema, FORK),
            list: Statement::call(schema, LIST),
            set_labels: Statement::call(schema, SET_LABELS),
            bar: Statement::call(schema, BAR),
            delete: Statement::call(schema, DELETE),
            lock: Statement::new(schema, &format!("{CONVERSATION} where c.key = $1 for update"), "t"),
            lock_page: Statement::new(
                schema,
                &format!("{CONVERSATION} where c.key > $1 and c.key < $2 order by c.key limit $3 for update"),
                "ttl",
            ),
            count: Counts::new(schema),
            walk: Statement::new(
                schema,
                "select e.seq, e.continues is null, e.messages from @.exchange e \
                 where e.conversation = $1 and e.seq >= $2 and e.seq < $3 order by e.seq desc limit 1000",
                "lll",
            ),
            sums_at: Statement::new(
                schema,
                "select e.messages_before + e.messages, e.bytes_before + e.bytes, e.media_before + e.media \
                 from @.exchange e where e.conversation = $1 and e.seq = $2",
                "ll",
            ),
            foreign: Statement::new(
                schema,
                "select 1 from @.exchange e where e.conversation = $1 and e.recalled_first < 0 limit 1",
                "l",
            ),
            change: Changes::new(schema),
        }
    }
}

/// The statements that count the rows of several conversations, given their numbers, for the tables of one schema.
#[derive(Debug)]
pub(crate) struct Counts {
    /// A page of conversations: the columns that a transaction reads of each.
    pub(crate) page: Statement,
    /// The one conversation with a key.
    pub(crate) one: Statement,
    /// The number of exchanges and their bytes.
    pub(crate) exchanges: Statement,
    /// The number of compactions, and of those that have derived text.
    pub(crate) compactions: Statement,
}

impl Counts {
    fn new(schema: &str) -> Self {
        Self {
            page: Statement::new(
                schema,
                &format!("{CONVERSATION} where c.key > $1 and c.key < $2 order by c.key limit $3"),
                "ttl",
            ),
            one: Statement::new(schema, &format!("{CONVERSATION} where c.key = $1"), "t"),
            exchanges: Statement::new(
                schema,
                "select count(*), coalesce(sum(e.bytes), 0)::bigint \
                 from @.exchange e where e.conversation = any ($1)",
                "L",
            ),
            compactions: Statement::new(
                schema,
                "select count(*), count(k.derived) from @.compaction k where k.conversation = any ($1)",
                "L",
            ),
        }
    }
}

/// The statements that change rows within a transaction of several statements, for the tables of one schema.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) remove_exchanges: Statement,
    pub(crate) remove_logs: Statement,
    pub(crate) remove_compactions: Statement,
    /// Replaces the compaction that has this profile and version, and removes all others.
    pub(crate) carry_compaction: Statement,
    /// Changes all compactions as `Compaction::without_derived` does.
    pub(crate) erase_derived: Statement,
    /// Removes from the exchanges from a position on their provenances, and the recalled messages that cite an exchange
    /// before the position or another conversation.
    pub(crate) erase_records: Statement,
    pub(crate) remove_conversations: Statement,
    pub(crate) set_first: Statement,
    pub(crate) set_incarnation: Statement,
}

impl Changes {
    fn new(schema: &str) -> Self {
        Self {
            remove_exchanges: Statement::new(
                schema,
                "delete from @.exchange where conversation = $1 and seq >= $2 and seq < $3",
                "lll",
            ),
            remove_logs: Statement::new(schema, "delete from @.exchange where conversation = any ($1)", "L"),
            remove_compactions: Statement::new(schema, "delete from @.compaction where conversation = any ($1)", "L"),
            carry_compaction: Statement::new(
                schema,
                "with removed as ( \
                    delete from @.compaction where conversation = $1 and (profile <> $2 or version <> $3) \
                 ) update @.compaction set version = version + 1, window_start = $4, call = $5, state = $6, derived = $7 \
                 where conversation = $1 and profile = $2 and version = $3",
                "ltllubb",
            ),
            erase_derived: Statement::new(
                schema,
                "update @.compaction set version = version + 1, call = $3, derived = null, \
                 window_start = case when derived is null then window_start else $2 end where conversation = $1",
                "llu",
            ),
            erase_records: Statement::new(
                schema,
                "update @.exchange set provenance = null, \
                 recalled = case when recalled_first < $2 then null else recalled end, \
                 recalled_first = case when recalled_first < $2 then null else recalled_first end \
                 where conversation = $1 and seq >= $2 and (provenance is not null or recalled_first < $2)",
                "ll",
            ),
            remove_conversations: Statement::new(schema, "delete from @.conversation where id = any ($1)", "L"),
            set_first: Statement::new(schema, "update @.conversation set first = $2 where id = $1", "ll"),
            set_incarnation: Statement::new(
                schema,
                "update @.conversation set incarnation = $2, len = $3, messages = $4, bytes = $5, media = $6, \
                 opening = (select e.seq from @.exchange e where e.conversation = $1 and e.continues is null \
                 order by e.seq desc limit 1) where id = $1",
                "lullll",
            ),
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
    letters.chars().filter_map(type_of).collect()
}

fn type_of(letter: char) -> Option<Type> {
    match letter {
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
    }
}

/// Replaces `@` by the schema.
pub(crate) fn in_schema(text: &str, schema: &str) -> String {
    text.replace("@.", &format!("\"{schema}\"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = concat!(
        include_str!("schema/step-1/reading.sql"),
        include_str!("schema/step-1/writing.sql"),
        include_str!("schema/step-1/forking.sql"),
        include_str!("schema/step-1/listing.sql"),
        include_str!("schema/step-1/deleting.sql"),
    );

    /// Returns the functions that the SQL files create, in the form of [`FUNCTIONS`].
    fn created() -> Vec<(String, String)> {
        let mut created = Vec::new();
        for text in SCHEMA.split("create function @.").skip(1) {
            let (name, rest) = text.split_once('(').unwrap();
            let parameters = rest.split_once(')').unwrap().0.split(',').map(str::trim);

            let mut letters = String::new();
            for parameter in parameters.filter(|parameter| !parameter.starts_with("out ")) {
                letters.push(match parameter.split_once(' ').unwrap().1 {
                    "text" => 't',
                    "bytea" => 'b',
                    "int" => 'i',
                    "bigint" => 'l',
                    "uuid" => 'u',
                    "text[]" => 'T',
                    "bigint[]" => 'L',
                    other => panic!("{other}"),
                });
            }
            created.push((name.to_owned(), letters));
        }
        created
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
