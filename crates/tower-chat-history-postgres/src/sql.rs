//! The statements of the calls: each is one round trip. What they ask is in the functions of `schema/`.

use tokio_postgres::types::Type;

/// A statement with the types of its parameters, so that the server need not be asked for them.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) types: Box<[Type]>,
}

impl Statement {
    fn new(schema: &str, text: &str, letters: &str) -> Self {
        Self { text: in_schema(text, schema), types: types(letters) }
    }
}

/// A question as one statement, and several of them as another one: that has an array for each parameter, and each of its rows
/// says at last whose it is, counted from one.
///
/// Arrays cost more than they save where there is only one. (`unnest` of several arrays is a part of the grammar: no search path
/// makes another function of it.)
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) alone: Statement,
    pub(crate) together: Statement,
}

/// All statements, for the tables of one schema.
#[derive(Debug)]
pub(crate) struct Sql {
    pub(crate) load: Statements,
    pub(crate) read: Statement,
    pub(crate) append: Statements,
    pub(crate) compact: Statement,
    pub(crate) delete: Statement,
    pub(crate) lock: Statement,
    pub(crate) walk: Statement,
    pub(crate) sums_at: Statement,
    pub(crate) remove_exchanges: Statement,
    pub(crate) remove_compactions: Statement,
    pub(crate) remove_conversation: Statement,
    pub(crate) compactions: Statement,
    pub(crate) set_compaction: Statement,
    pub(crate) remove_compaction: Statement,
    pub(crate) set_first: Statement,
    pub(crate) set_incarnation: Statement,
}

impl Statements {
    /// A function that is called with what stands before its parameters, in the one statement and in the other.
    fn new(schema: &str, [alone, together]: [&str; 2], letters: &str) -> Self {
        let list = |prefix: &str| (1..=letters.len()).map(|at| format!("{prefix}{at}")).collect::<Vec<_>>().join(", ");
        let (given, each) = (list("$"), list("p"));
        let alone = format!("select * from @.{alone}{given})");
        let together = format!(
            "select (called.r).*, called.number from (select @.{together}{each}) as r, number \
             from unnest({given}) with ordinality u ({each}, number) offset 0) called"
        );
        Self {
            alone: Statement::new(schema, &alone, letters),
            together: Statement::new(schema, &together, &letters.to_uppercase()),
        }
    }
}

impl Sql {
    /// The statements for that schema. Its name was checked: it needs no escaping within quotes.
    pub(crate) fn new(schema: &str) -> Self {
        let statement = |text: &str, letters: &str| Statement::new(schema, text, letters);
        Self {
            load: Statements::new(schema, ["load_1(", "load_1("], "tttullltll"),
            read: statement("select * from @.read_1($1, $2, $3, $4)", "tlll"),
            // Where others wait with it, it does not wait long for a conversation that another call changes.
            append: Statements::new(schema, ["append_1(null, ", "append_1(250, "], "tiulutlllttlllllt"),
            compact: statement("select * from @.compact_1($1, $2, $3, $4, $5, $6, $7, $8, $9)", "tu tlllllt"),
            delete: statement("select @.delete_1($1)", "t"),
            lock: statement(
                "select c.id, c.incarnation, c.version, c.first, c.len from @.conversation c where c.key = $1 for update",
                "t",
            ),
            walk: statement(
                "select e.seq, e.continues is null, e.messages from @.exchange e \
                 where e.conversation = $1 and e.seq >= $2 and e.seq < $3 order by e.seq desc limit 1000",
                "lll",
            ),
            sums_at: statement(
                "select e.messages_before, e.bytes_before from @.exchange e where e.conversation = $1 and e.seq = $2",
                "ll",
            ),
            remove_exchanges: statement(
                "delete from @.exchange e where e.conversation = $1 and e.seq >= $2 and e.seq < $3",
                "lll",
            ),
            remove_compactions: statement("delete from @.compaction k where k.conversation = $1", "l"),
            remove_conversation: statement("delete from @.conversation c where c.id = $1", "l"),
            compactions: statement(
                "select k.profile, k.version, k.body from @.compaction k where k.conversation = $1",
                "l",
            ),
            set_compaction: statement(
                "update @.compaction set version = $3, window_start = $4, rounds_start = $5, cleared_before = $6, \
                 covers_to = $7, body = $8 where conversation = $1 and profile = $2",
                "l tlllllt",
            ),
            remove_compaction: statement(
                "delete from @.compaction k where k.conversation = $1 and k.profile = $2",
                "lt",
            ),
            set_first: statement("update @.conversation set first = $2 where id = $1", "ll"),
            set_incarnation: statement(
                "update @.conversation set incarnation = $2, version = $3, len = $3, \
                 messages = coalesce($4, messages), bytes = coalesce($5, bytes), opening = coalesce(( \
                 select e.seq from @.exchange e where e.conversation = $1 and e.continues is null \
                 order by e.seq desc limit 1), -1) where id = $1",
                "lulll",
            ),
        }
    }
}

/// Types of parameters, a letter each: text, int (4 bytes), long (8 bytes), uuid; a capital for an array of them.
fn types(letters: &str) -> Box<[Type]> {
    let of = |letter| match letter {
        't' => Some(Type::TEXT),
        'i' => Some(Type::INT4),
        'l' => Some(Type::INT8),
        'u' => Some(Type::UUID),
        'I' => Some(Type::INT4_ARRAY),
        'T' => Some(Type::TEXT_ARRAY),
        'L' => Some(Type::INT8_ARRAY),
        'U' => Some(Type::UUID_ARRAY),
        _ => None,
    };
    letters.chars().filter_map(of).collect()
}

/// A text in which `@` stands for the schema.
pub(crate) fn in_schema(text: &str, schema: &str) -> String {
    text.replace("@.", &format!("\"{schema}\"."))
}
