use super::*;

async fn owner(config: OwnerConfig) -> Owner {
    spawn_owner("127.0.0.1:0".parse().unwrap(), config).await.unwrap()
}

async fn incr(owner: &Owner, key: &str, body: Value) -> reqwest::Result<reqwest::Response> {
    let request = reqwest::Client::new().post(owner.url("/incr")).header("idempotency-key", key);
    request.json(&body).timeout(Duration::from_secs(5)).send().await
}

async fn ask(owner: &Owner, key: &str) -> (u16, Value) {
    let response = reqwest::get(owner.url(&format!("/effects/{key}"))).await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

#[tokio::test]
async fn a_key_is_applied_once_and_answers_the_same() {
    let owner = owner(OwnerConfig::default()).await;
    for _ in 0..2 {
        let answer: Value = incr(&owner, "k", json!({})).await.unwrap().json().await.unwrap();
        assert_eq!(answer, json!({"effect_id": "e-1", "n": 1}));
    }
    assert_eq!(owner.books().report()["duplicates"], 0);
    let (status, word) = ask(&owner, "k").await;
    assert_eq!((status, &word["status"], &word["effect_id"]), (200, &json!("committed"), &json!("e-1")));
    assert_eq!(ask(&owner, "other").await.0, 404);
    let without_key = reqwest::Client::new().post(owner.url("/refund")).json(&json!({})).send().await.unwrap();
    assert_eq!(without_key.status(), 400);
}

#[tokio::test]
async fn without_dedupe_a_second_application_shows_in_the_books() {
    let owner = owner(OwnerConfig { dedupe: false, ..OwnerConfig::default() }).await;
    incr(&owner, "k", json!({})).await.unwrap();
    incr(&owner, "k", json!({})).await.unwrap();
    let books: Value = reqwest::get(owner.url("/books")).await.unwrap().json().await.unwrap();
    assert_eq!((&books["duplicates"], &books["counts"]["k"], &books["requests"]), (&json!(1), &json!(2), &json!(2)));
}

#[tokio::test]
async fn commit_then_drop_applies_and_never_answers() {
    let owner = owner(OwnerConfig::default()).await;
    let dropped = incr(&owner, "k", json!({"fault": "commit_then_drop"})).await;
    assert!(dropped.is_err_and(|error| !error.is_connect() && !error.is_timeout()));
    assert_eq!(ask(&owner, "k").await.0, 200);
    assert_eq!(incr(&owner, "k", json!({})).await.unwrap().status(), 200);
    assert_eq!(owner.books().counts()["k"], 1);
}

#[tokio::test]
async fn every_fault_applies_or_not_as_it_says() {
    let owner = owner(OwnerConfig::default()).await;
    for (fault, status, applied) in
        [("error_500_before", 500, 404), ("error_500_after", 500, 200), ("garbage_200", 200, 200)]
    {
        assert_eq!(incr(&owner, fault, json!({"fault": fault})).await.unwrap().status(), status);
        assert_eq!(ask(&owner, fault).await.0, applied, "{fault}");
    }
    assert_eq!(incr(&owner, "later", json!({"fault": "accepted"})).await.unwrap().status(), 202);
    assert_eq!(ask(&owner, "later").await.0, 202);
    assert_eq!(ask(&owner, "later").await.0, 200);
    let hanging = reqwest::Client::new().post(owner.url("/incr")).header("idempotency-key", "hang");
    let hanging = hanging.json(&json!({"fault": "hang"})).timeout(Duration::from_millis(100)).send().await;
    assert!(hanging.is_err_and(|error| error.is_timeout()));
    assert_eq!(ask(&owner, "hang").await.0, 404);
}

#[tokio::test]
async fn faults_can_be_set_for_the_next_requests_from_outside() {
    let owner = owner(OwnerConfig::default()).await;
    let faults = json!({"fault": "error_500_before", "times": 1});
    let set = reqwest::Client::new().post(owner.url("/faults")).json(&faults).send().await.unwrap();
    assert_eq!(set.status(), 204);
    assert_eq!(incr(&owner, "k", json!({})).await.unwrap().status(), 500);
    assert_eq!(incr(&owner, "k", json!({})).await.unwrap().status(), 200);
}

#[tokio::test]
async fn books_on_disk_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let config = OwnerConfig { books: Some(directory.path().join("books.jsonl")), ..OwnerConfig::default() };
    let first = owner(config.clone()).await;
    incr(&first, "k", json!({})).await.unwrap();
    drop(first);
    let second = owner(config).await;
    let answer: Value = incr(&second, "k", json!({})).await.unwrap().json().await.unwrap();
    assert_eq!((&answer["n"], second.books().applied().len()), (&json!(1), 1));
}

#[tokio::test]
async fn a_key_is_one_requests_and_another_request_is_refused() {
    let owner = owner(OwnerConfig::default()).await;
    let request = async |fingerprint: &str| {
        let request = reqwest::Client::new().post(owner.url("/incr")).header("idempotency-key", "k");
        let request = request.header("turnwright-request-fingerprint", fingerprint).json(&json!({}));
        request.send().await.unwrap()
    };
    assert_eq!(request("a").await.status(), 200);
    let refused = request("b").await;
    assert_eq!(refused.status(), 422);
    let expected = json!({"error": "fingerprint_mismatch", "request_fingerprint": "a"});
    assert_eq!(refused.json::<Value>().await.unwrap(), expected);
    assert_eq!(owner.books().counts()["k"], 1);
}

#[tokio::test]
async fn a_closed_key_stays_closed_across_a_restart_and_an_applied_one_cannot_be_closed() {
    let directory = tempfile::tempdir().unwrap();
    let config = OwnerConfig { books: Some(directory.path().join("books.jsonl")), ..OwnerConfig::default() };
    let close = async |owner: &Owner, key: &str| -> Value {
        let closed = reqwest::Client::new().put(owner.url(&format!("/effects/{key}"))).send().await.unwrap();
        closed.json().await.unwrap()
    };
    let first = owner(config.clone()).await;
    incr(&first, "applied", json!({})).await.unwrap();
    assert_eq!(close(&first, "applied").await["status"], "committed");
    let closed = json!({"status": "rejected", "closed": true});
    assert_eq!(close(&first, "open").await, closed);
    drop(first);
    let second = owner(config).await;
    assert_eq!(incr(&second, "open", json!({})).await.unwrap().status(), 409);
    assert_eq!((ask(&second, "open").await, close(&second, "open").await), ((200, closed.clone()), closed));
    assert_eq!(second.books().applied().len(), 1);
}
