//! The schema in the database, and its migration.

mod owners;

use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::types::Type;

use crate::{
    database::{CALL_TIMEOUT, Database, Lease, SessionDefaults, TRANSACTION_LIMITS},
    error::{OpenError, PostgresError},
    sql::{Statement, in_schema},
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
        include_str!("step-1/compacting.sql"),
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
enum Found {
    Nothing { schema: bool },
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
    let mut retry = database.retry();
    loop {
        match try_migrate(database, create).await {
            Err(OpenError::Postgres { source, .. }) => retry.again(source, &database.pool).await?,
            done => return done,
        }
    }
}

async fn try_migrate(database: &mut Database, create: bool) -> Result<(), OpenError> {
    let mut transaction = begin(database).await?;
    let found = inspect(database, &mut transaction).await;
    transaction.rollback().await;
    let (found, defaults) = found?;
    database.defaults = defaults;
    if matches!(found, Found::Version(version) if version >= NEWEST) {
        return Ok(());
    }
    if !create && matches!(found, Found::Nothing { .. }) {
        return Err(OpenError::NoSchema { schema: database.schema.clone() });
    }
    let mut transaction = begin(database).await?;
    match within(database, &mut transaction).await {
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

async fn within(database: &Database, transaction: &mut Lease) -> Result<(), OpenError> {
    // One migration at a time in this schema. The lock ends with the transaction, even through a pooler.
    let lock = statement("select pg_advisory_xact_lock(hashtextextended($1, 0))", &[Type::TEXT]);
    transaction.query(&lock, &[&format!("tower-chat-history {}", database.schema)]).await?;
    // Another replica may have migrated while this one waited.
    let version = match inspect(database, transaction).await?.0 {
        Found::Version(version) => version,
        Found::Nothing { schema } => {
            if !schema {
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
async fn inspect(database: &Database, transaction: &mut Lease) -> Result<(Found, SessionDefaults), OpenError> {
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
    let column = |number: usize| row.try_get::<_, bool>(number).map_err(PostgresError::from);
    let encoding: String = row.try_get(0).map_err(PostgresError::from)?;
    if encoding != "UTF8" {
        return Err(OpenError::Encoding { encoding });
    }
    let defaults = SessionDefaults { isolated: column(4)?, read_only: column(5)? };
    owners::check(database, transaction).await?;
    // Other applications have a table `schema_version` too, but hardly one with this column.
    if !column(2)? {
        return if column(3)? {
            Err(OpenError::Foreign)
        } else {
            Ok((Found::Nothing { schema: column(1)? }, defaults))
        };
    }
    // A library must be able to use the result of every step, so the largest `readable_from` counts.
    let newest = "select coalesce(max(version), 0), coalesce(max(readable_from), 0) from @.schema_version";
    let rows = transaction.query(&statement(&in_schema(newest, schema), &[]), &[]).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    let found = row.try_get(0).map_err(PostgresError::from)?;
    let readable_from: i32 = row.try_get(1).map_err(PostgresError::from)?;
    if readable_from > NEWEST {
        return Err(OpenError::NewerSchema { schema: schema.clone(), found, known: NEWEST });
    }
    Ok((Found::Version(found), defaults))
}

fn statement(text: &str, types: &[Type]) -> Statement {
    Statement { text: text.into(), types: types.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_gets_the_steps_that_it_lacks_in_their_order() {
        let after = |version| steps_after(version, &["one", "two", "three"]).collect::<Vec<_>>();
        assert_eq!(after(0), [(1, &"one"), (2, &"two"), (3, &"three")]);
        assert_eq!(after(2), [(3, &"three")]);
        assert_eq!(after(3), []);
        assert_eq!(after(99), [], "a newer library was here");
    }
}
