//! The state of the priority levels and of their queues, as text at `/debug/api_priority_and_fairness/`.

use super::fairness::Fairness;

/// The width of the narrowest column.
const MIN_WIDTH: usize = 8;

const LEVELS: [&str; 10] = [
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
];

const QUEUES: [&str; 9] = [
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
];

/// Returns the document at a path.
pub(super) fn document(fairness: &Fairness, path: &str) -> Option<String> {
    match path.strip_prefix("/debug/api_priority_and_fairness/")? {
        "dump_priority_levels" => Some(levels(fairness)),
        "dump_queues" => Some(queues(fairness)),
        _ => None,
    }
}

fn levels(fairness: &Fairness) -> String {
    let mut rows = vec![LEVELS.map(str::to_owned).to_vec()];
    for (name, level) in &fairness.configuration().levels {
        let state = level.state.lock();
        let totals = state.queues.totals;
        let active = state.queues.summaries().filter(|queue| queue.waiting > 0).count();
        rows.push(vec![
            name.clone(),
            active.to_string(),
            state.queues.is_idle().to_string(),
            state.is_quiescing.to_string(),
            totals.waiting.to_string(),
            totals.executing.to_string(),
            totals.dispatched.to_string(),
            totals.rejected.to_string(),
            // As in kube-apiserver, which counts no time-outs.
            "0".to_owned(),
            totals.canceled.to_string(),
        ]);
    }
    table(&rows)
}

/// Returns the busy queues. kube-apiserver lists unused ones, too.
fn queues(fairness: &Fairness) -> String {
    let mut rows = vec![QUEUES.map(str::to_owned).to_vec()];
    for (name, level) in &fairness.configuration().levels {
        let state = level.state.lock();
        rows.extend(state.queues.summaries().map(|queue| {
            vec![
                name.clone(),
                queue.index.to_string(),
                queue.waiting.to_string(),
                queue.executing.to_string(),
                queue.seats.to_string(),
                seat_seconds(queue.next_start),
                queue.initial_seats.to_string(),
                queue.all_seats.to_string(),
                seat_seconds(queue.work),
            ]
        }));
    }
    table(&rows)
}

fn seat_seconds(nanoseconds: i128) -> String {
    let hundredths = nanoseconds.max(0) / 10;
    format!("{}.{:08}ss", hundredths / 100_000_000, hundredths % 100_000_000)
}

/// Aligns the columns of a table, as Go's `tabwriter` does.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let longest = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.len() + 2).max();
        longest.unwrap_or_default().max(MIN_WIDTH)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            if column + 1 == row.len() {
                text.push_str(cell);
            } else {
                let cell = format!("{cell},");
                text.push_str(&format!("{cell:width$}", width = widths[column]));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["Name", "Index", "Last"], ["a-long-name", "1", "x"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "Name,        Index,  Last\na-long-name, 1,      x\n");
        assert_eq!(seat_seconds(1_234_567_890), "1.23456789ss");
    }
}
