//! The conditions of a migration. Reasons and messages are those of the real controllers.

use windlass_api::{Clock, Conditions, NewCondition};

use super::migration::{FAILED, RUNNING, SUCCEEDED, StorageVersionMigration};

const FAILED_REASON: &str = "StorageVersionMigrationFailed";

/// Marks a migration as running.
pub(super) fn start(migration: &mut StorageVersionMigration, clock: &Clock) {
    migration.status.conditions.set(running("The migration is running"), clock);
}

/// Reports an error that is retried, and the number of objects that are not rewritten yet.
pub(super) fn report_transient(
    migration: &mut StorageVersionMigration,
    left: usize,
    total: usize,
    error: &str,
    clock: &Clock,
) {
    let message = format!("{}; transient error: {error}", progress(left, total));
    migration.status.conditions.set(running(message), clock);
}

/// Marks a migration as succeeded.
pub(super) fn succeed(migration: &mut StorageVersionMigration, total: usize, clock: &Clock) {
    let conditions = &mut migration.status.conditions;
    conditions.set(running(progress(0, total)), clock);
    let succeeded = NewCondition::new(SUCCEEDED, true, "StorageVersionMigrationSucceeded");
    conditions.set(succeeded.message("Migration completed"), clock);
}

/// Marks a migration as failed.
pub(super) fn fail(migration: &mut StorageVersionMigration, message: &str, clock: &Clock) {
    migration.status.conditions.set(NewCondition::new(FAILED, true, FAILED_REASON).message(message), clock);
}

/// Marks a migration as failed, before any object was rewritten.
pub(super) fn fail_unhandled(migration: &mut StorageVersionMigration, error: &str, clock: &Clock) {
    fail(migration, &format!("migration encountered unhandled error: {error}"), clock);
}

/// Marks a migration as failed at an object, with the number of objects that are not rewritten.
pub(super) fn fail_at(migration: &mut StorageVersionMigration, left: usize, total: usize, error: &str, clock: &Clock) {
    migration.status.conditions.set(running(progress(left, total)), clock);
    let message = format!("{left}/{total} not yet migrated. migration encountered unhandled error: {error}");
    fail(migration, &message, clock);
}

/// Marks a migration that has succeeded or failed as no longer running.
pub(super) fn finish(migration: &mut StorageVersionMigration, clock: &Clock) {
    let completed = NewCondition::new(RUNNING, false, "MigrationCompleted").message("Migration completed");
    let completed = match migration.metadata.generation {
        Some(generation) => completed.observed(generation),
        None => completed,
    };
    migration.status.conditions.set(completed, clock);
}

fn running(message: impl Into<String>) -> NewCondition {
    NewCondition::new(RUNNING, true, "MigrationRunning").message(message)
}

fn progress(left: usize, total: usize) -> String {
    match (left, total) {
        (_, 0) => "The migration is running".to_owned(),
        (0, total) => format!("The migration is running, {total} objects verified migrated"),
        (left, total) => format!("The migration is running, {left}/{total} objects not yet migrated"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn after(change: impl FnOnce(&mut StorageVersionMigration, &Clock)) -> Vec<(String, String, String)> {
        let mut migration = StorageVersionMigration::default();
        let clock = Clock::from_fn(|| Timestamp::UNIX_EPOCH);
        start(&mut migration, &clock);
        change(&mut migration, &clock);
        let conditions = migration.status.conditions.into_iter();
        conditions.map(|condition| (condition.type_, condition.reason, condition.message)).collect()
    }

    fn of(kind: &str, reason: &str, message: &str) -> (String, String, String) {
        (kind.to_owned(), reason.to_owned(), message.to_owned())
    }

    #[test]
    fn messages_are_those_of_the_real_controllers() {
        let running = |message| of("Running", "MigrationRunning", message);
        let failed = |message| of("Failed", "StorageVersionMigrationFailed", message);
        let succeeded = of("Succeeded", "StorageVersionMigrationSucceeded", "Migration completed");
        assert_eq!(after(|_, _| {}), [running("The migration is running")]);
        assert_eq!(
            after(|migration, clock| report_transient(migration, 2, 5, "busy", clock)),
            [running("The migration is running, 2/5 objects not yet migrated; transient error: busy")]
        );
        assert_eq!(
            after(|migration, clock| succeed(migration, 0, clock)),
            [running("The migration is running"), succeeded.clone()]
        );
        assert_eq!(
            after(|migration, clock| succeed(migration, 5, clock)),
            [running("The migration is running, 5 objects verified migrated"), succeeded]
        );
        assert_eq!(
            after(|migration, clock| fail_at(migration, 1, 5, "denied", clock)),
            [
                running("The migration is running, 1/5 objects not yet migrated"),
                failed("1/5 not yet migrated. migration encountered unhandled error: denied")
            ]
        );
        assert_eq!(
            after(|migration, clock| {
                fail_unhandled(migration, "gone", clock);
                finish(migration, clock);
            }),
            [
                of("Running", "MigrationCompleted", "Migration completed"),
                failed("migration encountered unhandled error: gone")
            ]
        );
    }
}
