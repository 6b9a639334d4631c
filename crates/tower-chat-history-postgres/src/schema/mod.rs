//! What is in the database, and bringing it up to date.

use tokio_postgres::types::{ToSql, Type};

use crate::{
    OpenError, PostgresError,
    database::{Database, Transaction},
    sql::{Statement, in_schema},
};

/// The step to each schema version from the one before. Databases with these versions are out there: a step is never changed,
/// only followed by another one. A step leaves in place what the older library calls, since replicas are replaced one by one.
const MIGRATIONS: [&str; 1] = [include_str!("schema-1.sql")];

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // A handful.
const NEWEST: i32 = MIGRATIONS.len() as i32;

/// The list of versions. Each migration adds a row.
const VERSIONS: &str = "create table @.schema_version (\
    version int primary key, migrated_at timestamptz not null default now())";

/// What is found before anything is changed.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing { schema: bool },
    Version(i32),
}

/// Runs the steps that the database lacks, all or none. Any number of replicas may do so at once: one does, the others wait.
/// Where nothing is to be done, nothing is locked, and no right is needed but to read the list of versions.
pub(crate) async fn migrate(database: &Database) -> Result<(), OpenError> {
    let mut retry = database.retry();
    loop {
        match try_migrate(database).await {
            Err(OpenError::Postgres(error)) => {
                retry.again(error.into(), &database.pool).await.map_err(|failure| match failure {
                    crate::error::Failure::Postgres(error) => OpenError::Postgres(error),
                    crate::error::Failure::Store(_) => OpenError::Postgres(PostgresError::Protocol),
                })?;
            }
            done => return done,
        }
    }
}

async fn try_migrate(database: &Database) -> Result<(), OpenError> {
    let mut lease = database.lease().await?;
    if find(database, &mut lease).await? == Found::Version(NEWEST) {
        return Ok(());
    }
    drop(lease);
    let mut transaction = database.begin().await?;
    match within(database, &mut transaction).await {
        Ok(()) => transaction.commit().await.map_err(|failure| match failure {
            crate::error::Failure::Postgres(error) => OpenError::Postgres(error),
            crate::error::Failure::Store(_) => OpenError::Postgres(PostgresError::Connection { source: None }),
        }),
        Err(error) => {
            transaction.rollback().await;
            Err(error)
        }
    }
}

async fn within(database: &Database, transaction: &mut Transaction) -> Result<(), OpenError> {
    // One migration at a time in this schema. The lock ends with the transaction, also behind a pooler.
    let lock = statement("select pg_advisory_xact_lock(hashtextextended($1, 0))", &[Type::TEXT]);
    transaction.query(&lock, &[&format!("tower-chat-history {}", database.schema)]).await?;
    // Another replica may have done it while this one waited.
    let version = match find(database, transaction).await? {
        Found::Version(version) => version,
        Found::Nothing { schema } => {
            if !schema {
                transaction.batch(&format!("create schema \"{}\"", database.schema)).await?;
            }
            transaction.batch(&in_schema(VERSIONS, &database.schema)).await?;
            0
        }
    };
    let insert = in_schema("insert into @.schema_version (version) values ($1)", &database.schema);
    for (step, number) in MIGRATIONS.iter().zip(1..).filter(|(_, number)| *number > version) {
        transaction.batch(&in_schema(step, &database.schema)).await?;
        transaction.query(&statement(&insert, &[Type::INT4]), &[&number as &(dyn ToSql + Sync)]).await?;
    }
    Ok(())
}

/// What the database has.
async fn find(database: &Database, lease: &mut Transaction) -> Result<Found, OpenError> {
    let schema = &database.schema;
    // The catalog itself is asked. What `to_regclass` and its like found once they may go on saying within a transaction, and
    // another replica may have made the schema while this one waited.
    let look = statement(
        "select current_setting('server_encoding'), \
         exists (select from pg_catalog.pg_namespace where nspname = $1), \
         exists (select from pg_catalog.pg_tables where schemaname = $1 and tablename = 'schema_version'), \
         exists (select from pg_catalog.pg_tables where schemaname = $1 and tablename = 'conversation')",
        &[Type::TEXT],
    );
    let rows = lease.query(&look, &[schema]).await?;
    let row = rows.first().ok_or(PostgresError::Protocol)?;
    let column = |number: usize| row.try_get::<_, bool>(number).map_err(PostgresError::from);
    let encoding: String = row.try_get(0).map_err(PostgresError::from)?;
    if encoding != "UTF8" {
        return Err(OpenError::Encoding { encoding });
    }
    if !column(2)? {
        return if column(3)? { Err(OpenError::Foreign) } else { Ok(Found::Nothing { schema: column(1)? }) };
    }
    let newest = statement(&in_schema("select max(version) from @.schema_version", schema), &[]);
    let rows = lease.query(&newest, &[]).await?;
    let version = rows.first().map(|row| row.try_get::<_, Option<i32>>(0)).transpose().map_err(PostgresError::from)?;
    match version.flatten().unwrap_or(0) {
        found if found > NEWEST => Err(OpenError::NewerSchema { found, known: NEWEST }),
        found => Ok(Found::Version(found)),
    }
}

fn statement(text: &str, types: &[Type]) -> Statement {
    Statement { text: text.into(), types: types.into() }
}
