//! Tests of the shutdown.

use super::*;

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_requests_in_progress() {
    let permits = Arc::new(Semaphore::new(0));
    let running = Running::start(HttpServer::new().grace_period(60 * SECOND), waiting(&permits));
    let mut idle = running.connect();
    let mut busy = running.connect();
    busy.write_all(GET).await.unwrap();
    let (mut sender, _connection) = http2(running.connect(), &mut builder()).await;
    let over_http2 = tokio::spawn(async move { sender.send_request(get("/")).await.unwrap().status() });
    time::sleep(SECOND).await;
    let incoming = running.incoming.clone();
    let stopped = tokio::spawn(running.stop());
    assert_eq!(rest(&mut idle).await, "", "idle connections are closed at once");
    assert!(incoming.is_closed(), "no connection is accepted");
    time::sleep(10 * SECOND).await;
    permits.add_permits(2);
    assert!(rest(&mut busy).await.ends_with("at last"));
    assert_eq!(over_http2.await.unwrap(), StatusCode::OK);
    assert_eq!(stopped.await.unwrap(), (0, 10 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn shutdown_cuts_off_requests_after_the_grace_period() {
    for grace in [Duration::ZERO, 5 * SECOND] {
        let running = Running::start(HttpServer::new().grace_period(grace), waiting(&Arc::new(Semaphore::new(0))));
        let mut busy = [running.connect(), running.connect()];
        for stream in &mut busy {
            stream.write_all(GET).await.unwrap();
        }
        time::sleep(SECOND).await;
        assert_eq!(running.stop().await, (2, grace));
        for stream in &mut busy {
            assert_eq!(rest(stream).await, "");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_server_leaves_no_task() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let running = Running::start(HttpServer::new(), waiting(&Arc::new(Semaphore::new(0))));
    let mut busy = running.connect();
    busy.write_all(GET).await.unwrap();
    let (mut sender, connection) = http2(running.connect(), &mut builder()).await;
    let over_http2 = tokio::spawn(async move { sender.send_request(get("/")).await });
    time::sleep(SECOND).await;
    assert!(alive() > 0);
    running.serving.abort();
    assert_eq!(rest(&mut busy).await, "");
    over_http2.await.unwrap().unwrap_err();
    drop(connection.await.unwrap());
    time::sleep(SECOND).await;
    assert_eq!(alive(), 0);
}
