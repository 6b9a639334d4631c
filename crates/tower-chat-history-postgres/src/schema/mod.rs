//! What is in the database, and bringing it up to date.

mod owners;

use tokio::{runtime::Handle, time::timeout};
use tokio_postgres::types::Type;

use crate::{
    database::{CALL_TIMEOUT, Database, Lease, SessionDefaults, TRANSACTION_LIMITS},
    error::{OpenError, PostgresError},
    sql::{Statement, in_schema},
};

/// The step to each schema version from the one before, and the oldest version whose library can use the outcome.
///
/// Before release 0.1.0 a step is edited in place. From 0.1.0 on, databases with these versions exist: a step is never
/// changed, only followed by another one. A step leaves in place what the older library calls, since replicas are
/// replaced one by one, and an older one may be started again meanwhile.
const MIGRATIONS: [(&str, i32); 1] = [(
    concat!(include_str!("step-1/tables.sql"), include_str!("step-1/reading.sql"), include_str!("step-1/writing.sql")),
    1,
)];

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // A handful.
const NEWEST: i32 = MIGRATIONS.len() as i32;

/// The list of versions. Each migration adds a row.
const VERSIONS: &str = "create table @.schema_version (\
    version int primary key, readable_from int not null, migrated_at timestamptz not null default now())";

/// What is found before anything is changed.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing { schema: bool },
    Version(i32),
}

/// Runs the steps that the database lacks, all or none, and finds out what its settings are. Any number of replicas may do so at
/// once: one does, the others wait. Where nothing is to be done, nothing is locked, and no right is needed but to read the list
/// of versions. It has the time that a call has.
pub(crate) async fn migrate(database: &mut Database) -> Result<(), OpenError> {
    // A time limit needs a runtime.
    Handle::try_current().map_err(|_| PostgresError::NoRuntime)?;
    timeout(CALL_TIMEOUT, migrate_with_retries(database)).await.unwrap_or_else(|_| Err(PostgresError::NoAnswer.into()))
}

/// There is nothing here that must not be done twice, also when it is unknown whether it was done.
async fn migrate_with_retries(database: &mut Database) -> Result<(), OpenError> {
    let mut retry = database.retry();
    loop {
        match try_migrate(database).await {
            Err(OpenError::Postgres { source, .. }) => retry.again(source, &database.pool).await?,
            done => return done,
        }
    }
}

async fn try_migrate(database: &mut Database) -> Result<(), OpenError> {
    let mut transaction = begin(database).await?;
    let found = inspect(database, &mut transaction).await;
    transaction.rollback().await;
    let (found, defaults) = found?;
    database.defaults = defaults;
    if matches!(found, Found::Version(version) if version >= NEWEST) {
        return Ok(());
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
    // One migration at a time in this schema. The lock ends with the transaction, also behind a pooler.
    let lock = statement("select pg_advisory_xact_lock(hashtextextended($1, 0))", &[Type::TEXT]);
    transaction.query(&lock, &[&format!("tower-chat-history {}", database.schema)]).await?;
    // Another replica may have done it while this one waited.
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

/// The steps that a schema of that version lacks, with the version that each leads to.
fn steps_after<S>(version: i32, steps: &[S]) -> impl Iterator<Item = (i32, &S)> {
    (1..).zip(steps).filter(move |(number, _)| *number > version)
}

/// What the database has, and what a transaction in it is like.
async fn inspect(database: &Database, transaction: &mut Lease) -> Result<(Found, SessionDefaults), OpenError> {
    let schema = &database.schema;
    // The catalog itself is asked. What `to_regclass` and its like found once they may go on saying within a transaction, and
    // another replica may have made the schema while this one waited.
    let look = statement(
        "select current_setting('server_encoding'), \
         exists (select from pg_catalog.pg_namespace where nspname = $1), \
         exists (select from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid \
            join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 \
            and c.relname = 'schema_version' and a.attname = 'readable_from' and not a.attisdropped), \
         exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
            where n.nspname = $1 and c.relname in ('schema_version', 'conversation', 'exchange', 'compaction')), \
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
    // What one step made unreadable, a later one does not make readable again.
    let newest = "select coalesce(max(version), 0), coalesce(max(readable_from), 0) from @.schema_version";
    let rows = transaction.query(&statement(&in_schema(newest, schema), &[]), &[]).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    let found = row.try_get(0).map_err(PostgresError::from)?;
    let readable_from: i32 = row.try_get(1).map_err(PostgresError::from)?;
    if readable_from > NEWEST {
        return Err(OpenError::NewerSchema { found, known: NEWEST });
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
