use super::*;

const NOW: Duration = Duration::ZERO;

fn window() -> Window {
    let limits = Limits { in_flight: 8, batch: 4, partition_records: 4, partition_bytes: 1 << 20 };
    let mut window = Window::new(limits);
    window.assign(place(0), None, NOW);
    window
}

fn place(partition: i32) -> Place {
    ("t".to_owned(), partition)
}

fn record(partition: i32, offset: i64) -> Inbound {
    Inbound {
        topic: "t".to_owned(),
        partition,
        offset,
        timestamp_ms: 0,
        key: None,
        value: Some(vec![0; 10]),
        headers: Vec::new(),
    }
}

fn arrive(window: &mut Window, offset: i64, key: &str) -> Arrival {
    window.arrive(record(0, offset), key.as_bytes().to_vec(), NOW)
}

#[test]
fn a_later_record_that_finished_first_waits_for_the_earlier_one() {
    let mut window = window();
    arrive(&mut window, 0, "slow");
    arrive(&mut window, 1, "fast");
    let slow = window.next_batch().unwrap();
    let fast = window.next_batch().unwrap();
    assert!(window.finish(fast.tickets[0]));
    assert_eq!(window.take_commits(), vec![]);
    assert!(window.finish(slow.tickets[0]));
    assert_eq!(window.take_commits(), vec![(place(0), 2)]);
}

#[test]
fn a_full_partition_pauses_once_and_resumes_at_half() {
    let mut window = window();
    let arrivals: Vec<_> = (0..5).map(|offset| arrive(&mut window, offset, &offset.to_string())).collect();
    assert_eq!(arrivals.iter().filter(|a| **a == Arrival::QueuedAndFull).count(), 1);
    assert_eq!(arrivals[3], Arrival::QueuedAndFull);
    let batches: Vec<_> = std::iter::from_fn(|| window.next_batch()).collect();
    window.finish(batches[0].tickets[0]);
    window.finish(batches[1].tickets[0]);
    assert!(window.take_resumable().is_empty());
    window.finish(batches[2].tickets[0]);
    assert_eq!(window.take_resumable(), vec![place(0)]);
    assert!(window.take_resumable().is_empty());
}

#[test]
fn bytes_pause_a_partition_too() {
    let limits = Limits { in_flight: 8, batch: 4, partition_records: 100, partition_bytes: 200 };
    let mut window = Window::new(limits);
    window.assign(place(0), None, NOW);
    assert_eq!(arrive(&mut window, 0, "a"), Arrival::Queued);
    assert_eq!(arrive(&mut window, 1, "a"), Arrival::QueuedAndFull);
}

#[test]
fn a_stopped_partition_drops_its_queue_and_keeps_what_is_in_flight() {
    let mut window = window();
    arrive(&mut window, 0, "a");
    let batch = window.next_batch().unwrap();
    arrive(&mut window, 1, "a");
    arrive(&mut window, 2, "b");
    window.stop(&[place(0)]);
    assert!(window.next_batch().is_none());
    assert_eq!(window.in_flight_of(&[place(0)]), 1);
    assert!(!window.is_wanted(batch.tickets[0]));
    assert_eq!(arrive(&mut window, 3, "c"), Arrival::Dropped);
    assert!(window.finish(batch.tickets[0]));
    assert_eq!(window.take_commits(), vec![(place(0), 1)]);
}

#[test]
fn a_result_of_an_older_assignment_counts_for_nothing() {
    let mut window = window();
    arrive(&mut window, 0, "a");
    let batch = window.next_batch().unwrap();
    window.remove(&place(0));
    window.assign(place(0), Some(0), NOW);
    // The key is still busy: the same record, delivered again, waits for the old batch.
    arrive(&mut window, 0, "a");
    assert!(window.next_batch().is_none());
    assert!(!window.finish(batch.tickets[0]));
    assert_eq!(window.take_commits(), vec![]);
    window.release(batch.key);
    let again = window.next_batch().unwrap();
    assert_eq!(again.records[0].offset, 0);
    assert!(window.finish(again.tickets[0]));
    assert_eq!(window.take_commits(), vec![(place(0), 1)]);
}

#[test]
fn an_abandoned_record_holds_the_prefix() {
    let mut window = window();
    arrive(&mut window, 0, "a");
    arrive(&mut window, 1, "b");
    let a = window.next_batch().unwrap();
    let b = window.next_batch().unwrap();
    window.stop(&[place(0)]);
    window.abandon(a.tickets[0]);
    window.finish(b.tickets[0]);
    assert_eq!(window.in_flight_of(&[place(0)]), 0);
    assert_eq!(window.take_commits(), vec![]);
}

#[test]
fn one_key_over_two_partitions_is_one_batch() {
    let mut window = window();
    window.assign(place(1), None, NOW);
    arrive(&mut window, 0, "a");
    let first = window.next_batch().unwrap();
    arrive(&mut window, 1, "a");
    window.arrive(record(1, 7), b"a".to_vec(), NOW);
    window.release(first.key);
    let second = window.next_batch().unwrap();
    assert_eq!(second.records.iter().map(|r| (r.partition, r.offset)).collect::<Vec<_>>(), vec![(0, 1), (1, 7)]);
}

#[test]
fn paused_partitions_are_never_called_quiet() {
    let mut window = window();
    assert_eq!(window.quiet(Duration::from_secs(9))[0].since, Duration::from_secs(9));
    for offset in 0..4 {
        arrive(&mut window, offset, "a");
    }
    assert!(window.quiet(Duration::from_secs(9)).is_empty());
}
