//! The schema in the database, and its migration.
//!
//! # Decisions
//!
//! - **Records are text and are never parsed.** PostgreSQL's JSON functions refuse `\u0000`. Each exchange has a column
//!   with the size of all exchanges before it, so a comparison of totals finds where a window begins.

use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::{
    Row,
    types::{FromSql, Type},
};

use crate::{
    database::{CALL_TIMEOUT, Database, Lease, Retry, SessionDefaults, TRANSACTION_LIMITS},
    error::{OpenError, PostgresError},
    sql::{FUNCTIONS, Function, Statement, in_schema, types},
};

/// The migration steps to each schema version, each with the oldest library version that can use the result.
///
/// Before release 0.1.0, a step is edited in place. From 0.1.0 on, databases with these versions exist: a step never
/// changes, and only new ones are added. A step leaves everything in place that older libraries call, because replicas
/// are replaced one by one, and an older one may be started again.
const MIGRATIONS: [(&str, i32); 1] = [(
    concat!(
        include_str!("step-1/tables.sql"),
        include_str!("step-1/reading.sql"),
        include_str!("step-1/writing.sql"),
        include_str!("step-1/forking.sql"),
        include_str!("step-1/listing.sql"),
        include_str!("step-1/deleting.sql"),
    ),
    1,
)];

const NEWEST: i32 = MIGRATIONS.len() as i32;

/// The table of versions. Each migration adds a row.
const VERSIONS: &str = "create table @.schema_version (\
    version int primary key, readable_from int not null, migrated_at timestamptz not null default now())";

/// The state of the schema before a migration.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// There are no tables. There may be an empty schema.
    Empty {
        has_schema: bool,
    },
    Version(i32),
}

/// Runs the migration steps that the database lacks, all or none, and reads the settings of the session. Without
/// tables, it fails unless it may create them.
///
/// Any number of replicas may call this at the same time: one of them migrates, and the others wait. If no step is
/// missing, this locks nothing, and the role needs only the right to read the table of versions. It has the same time
/// limit as a call.
pub(crate) async fn migrate(database: &mut Database, create: bool) -> Result<(), OpenError> {
    // A time limit needs a runtime.
    Handle::try_current().map_err(|_| PostgresError::NoRuntime)?;
    let migrated = timeout(CALL_TIMEOUT, migrate_with_retries(database, create)).await;
    migrated.unwrap_or_else(|_| Err(PostgresError::NoAnswer.into()))
}

/// Migrates, and repeats after transient failures. If it is unknown whether a migration was committed, it is safe to
/// repeat it.
async fn migrate_with_retries(database: &mut Database, create: bool) -> Result<(), OpenError> {
    let mut retry = Retry::new(database.retry_for);
    loop {
        match try_migrate(database, create).await {
            Err(OpenError::Postgres { source, .. }) => retry.again(source, &database.pool).await?,
            done => return done,
        }
    }
}

async fn try_migrate(database: &mut Database, create: bool) -> Result<(), OpenError> {
    let mut transaction = begin(database).await?;
    let inspected = inspect(database, &mut transaction).await;
    transaction.rollback().await;
    let (state, defaults) = inspected?;
    database.defaults = defaults;

    match state {
        State::Version(version) if version >= NEWEST => return Ok(()),
        State::Empty { .. } if !create => return Err(OpenError::NoSchema { schema: database.schema.clone() }),
        State::Empty { .. } | State::Version(_) => {}
    }

    let mut transaction = begin(database).await?;
    match run_steps(database, &mut transaction).await {
        Ok(()) => Ok(transaction.commit().await?),
        Err(error) => {
            transaction.rollback().await;
            Err(error)
        }
    }
}

async fn begin(database: &Database) -> Result<Lease, PostgresError> {
    let mut lease = database.lease().await?;
    lease.begin(&format!("{}; {TRANSACTION_LIMITS}", database.defaults.begin())).await?;
    Ok(lease)
}

/// Runs the steps that the schema lacks.
async fn run_steps(database: &Database, transaction: &mut Lease) -> Result<(), OpenError> {
    // One migration at a time in this schema. The lock ends with the transaction, even through a pooler.
    let lock = statement("select pg_advisory_xact_lock(hashtextextended($1, 0))", &[Type::TEXT]);
    transaction.query(&lock, &[&format!("tower-chat-history {}", database.schema)]).await?;

    // Another replica may have migrated while this one waited.
    let version = match inspect(database, transaction).await?.0 {
        State::Version(version) => version,
        State::Empty { has_schema } => {
            if !has_schema {
                transaction.batch(&format!("create schema \"{}\"", database.schema)).await?;
            }
            transaction.batch(&in_schema(VERSIONS, &database.schema)).await?;
            0
        }
    };

    let insert = in_schema("insert into @.schema_version (version, readable_from) values ($1, $2)", &database.schema);
    for (number, (step, readable_from)) in steps_after(version, &MIGRATIONS) {
        transaction.batch(&in_schema(step, &database.schema)).await?;
        transaction.query(&statement(&insert, &[Type::INT4, Type::INT4]), &[&number, readable_from]).await?;
    }
    Ok(())
}

/// Returns the steps that a schema of this version lacks, each with the version that it leads to.
fn steps_after<S>(version: i32, steps: &[S]) -> impl Iterator<Item = (i32, &S)> {
    (1..).zip(steps).filter(move |(number, _)| *number > version)
}

/// Reads the state of the schema and the settings of the session.
async fn inspect(database: &Database, transaction: &mut Lease) -> Result<(State, SessionDefaults), OpenError> {
    let schema = &database.schema;
    // This reads the catalog itself. The results of `to_regclass` and similar functions may be cached within a
    // transaction, and another replica may have created the schema while this one waited.
    let look = statement(
        "select current_setting('server_encoding'), \
         exists (select from pg_catalog.pg_namespace where nspname = $1), \
         exists (select from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid \
            join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 \
            and c.relname = 'schema_version' and a.attname = 'readable_from' and not a.attisdropped), \
         exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
            where n.nspname = $1 \
            and c.relname in ('schema_version', 'conversation', 'exchange', 'compaction', 'erasure', 'epoch')), \
         current_setting('default_transaction_isolation') <> 'read committed', \
         current_setting('default_transaction_read_only')::bool",
        &[Type::TEXT],
    );
    let rows = transaction.query(&look, &[schema]).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    let encoding: String = column(row, 0)?;
    let has_schema: bool = column(row, 1)?;
    let has_versions: bool = column(row, 2)?;
    let has_tables: bool = column(row, 3)?;
    let defaults = SessionDefaults { isolated: column(row, 4)?, read_only: column(row, 5)? };

    if encoding != "UTF8" {
        return Err(OpenError::Encoding { encoding });
    }
    check_owners(database, transaction).await?;

    // Other applications have a table `schema_version` too, but hardly one with the store's columns.
    if !has_versions && has_tables {
        return Err(OpenError::Foreign);
    }
    if !has_versions {
        return Ok((State::Empty { has_schema }, defaults));
    }

    // A library must be able to use the result of every step, so the largest `readable_from` counts.
    let newest = "select coalesce(max(version), 0), coalesce(max(readable_from), 0) from @.schema_version";
    let rows = transaction.query(&statement(&in_schema(newest, schema), &[]), &[]).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    let version = column(row, 0)?;
    let readable_from: i32 = column(row, 1)?;
    if readable_from > NEWEST {
        return Err(OpenError::NewerSchema { schema: schema.clone(), found: version, known: NEWEST });
    }
    Ok((State::Version(version), defaults))
}

/// Finds the first of schema, tables and functions whose owner is not trusted. Returns the object, or null for the
/// schema, and the owner.
///
/// Trusted are the current role, the roles that it is a member of, superusers, and the named role. `pg_has_role` is not
/// used: it reports that a superuser is a member of every role. Objects of `pg_database_owner` belong to the owner of
/// the database. Functions with the same names and other parameters are ignored: the store does not call them.
const UNTRUSTED_OWNER: &str = "
    with recursive mine (role) as (
        select r.oid from pg_catalog.pg_roles r where r.rolname = current_user
        union select m.roleid from pg_catalog.pg_auth_members m join mine on m.member = mine.role
    ), things (number, object, namespace, owner) as (
        select 0, null::text, n.oid, n.nspowner from pg_catalog.pg_namespace n
        union all
        select 1, 'the table ' || c.relname, c.relnamespace, c.relowner from pg_catalog.pg_class c
            where c.relname in ('schema_version', 'conversation', 'exchange', 'compaction', 'erasure', 'epoch')
        union all
        select 2, 'the function ' || p.proname, p.pronamespace, p.proowner from pg_catalog.pg_proc p
            where p.proname || ' ' || p.proargtypes::text = any ($2)
    )
    select t.object, r.rolname::text
    from things t join pg_catalog.pg_namespace n on n.oid = t.namespace and n.nspname = $1
        join pg_catalog.pg_roles o on o.oid = t.owner
        join pg_catalog.pg_roles r on r.oid = case o.rolname when 'pg_database_owner' then (
            select d.datdba from pg_catalog.pg_database d where d.datname = current_database()
        ) else o.oid end
    where not r.rolsuper and r.oid not in (select role from mine) and r.rolname is distinct from $3
    order by t.number, t.object limit 1";

/// Checks who owns the schema and the store's objects in it.
///
/// The owner of a schema may replace the functions in it, which run with the rights of the caller. An existing schema
/// is therefore used only if its owner is trusted.
async fn check_owners(database: &Database, transaction: &mut Lease) -> Result<(), OpenError> {
    let schema = &database.schema;
    let functions = FUNCTIONS.map(signature).to_vec();
    let untrusted = statement(UNTRUSTED_OWNER, &[Type::TEXT, Type::TEXT_ARRAY, Type::TEXT]);
    let rows = transaction.query(&untrusted, &[schema, &functions, &database.schema_owner]).await?;

    let Some(row) = rows.first() else { return Ok(()) };
    let object = column(row, 0)?;
    let owner = column(row, 1)?;
    Err(OpenError::Owner { schema: schema.clone(), object, owner })
}

/// Returns a function in the form of the catalog: its name and the numbers of its parameters' types.
fn signature((name, letters): Function) -> String {
    let parameters: Vec<String> = types(letters).iter().map(|parameter| parameter.oid().to_string()).collect();
    format!("{name} {}", parameters.join(" "))
}

fn column<'a, T: FromSql<'a>>(row: &'a Row, number: usize) -> Result<T, PostgresError> {
    Ok(row.try_get(number)?)
}

fn statement(text: &str, types: &[Type]) -> Statement {
    Statement { text: text.into(), types: types.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_gets_the_steps_that_it_lacks_in_their_order() {
        let steps = ["one", "two", "three"];
        assert_eq!(steps_after(0, &steps).collect::<Vec<_>>(), [(1, &"one"), (2, &"two"), (3, &"three")]);
        assert_eq!(steps_after(2, &steps).collect::<Vec<_>>(), [(3, &"three")]);
        assert_eq!(steps_after(3, &steps).count(), 0);
        assert_eq!(steps_after(99, &steps).count(), 0, "a newer library was here");
    }

    #[test]
    fn a_function_is_identified_by_its_parameters() {
        assert_eq!(signature(("delete_1", "tu")), "delete_1 25 2950");
    }
}
