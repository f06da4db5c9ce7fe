//! Buckets of a real S3 server, that of the testkit.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use refloat_store::storage::{
    BucketOptions, Existing, Storage, StorageErrorKind, mount_all, open, read_whole, write_whole,
};

use crate::proxy::{Cut, Proxy};
use refloat_testkit::s3::{BUCKET, KEY, Kind, SECRET, Server};
use refloat_testkit::storages::{bytes, keeps_its_promises, names, read_range};

const MIB: usize = 1 << 20;

fn bucket_at(port: u16) -> Arc<dyn Storage> {
    open(&format!("s3://{BUCKET}/base/of"), &Server::options(port)).unwrap()
}

#[test]
fn a_bucket_keeps_its_promises() {
    let server = Server::start(Kind::default());
    keeps_its_promises(&bucket_at(server.port));
    assert!(server.seen.begun.lock().unwrap().is_empty());
    assert_eq!(server.parts(), 0);
    // A storage sees what is its own, and holds it where the URL says.
    let whole = open(&format!("s3://{BUCKET}"), &Server::options(server.port)).unwrap();
    write_whole(&*whole, "other", b"1", Existing::Keep).unwrap();
    let storage = bucket_at(server.port);
    write_whole(&*storage, "x", b"2", Existing::Keep).unwrap();
    assert_eq!(names(&whole, ""), ["base/of/x", "other"]);
    assert_eq!(names(&storage, ""), ["x"]);
}

#[test]
fn a_bucket_whose_service_ignores_conditions_keeps_its_promises_but_at_the_same_moment() {
    let server = Server::start(Kind {
        ignores_conditions: true,
        ..Kind::default()
    });
    keeps_its_promises(&bucket_at(server.port));
}

#[test]
fn a_list_has_more_than_a_page() {
    let server = Server::start(Kind::default());
    let folder = server.files().join("base/of/many");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..1500 {
        std::fs::write(folder.join(format!("{number:04}")), b"x").unwrap();
    }
    let storage = bucket_at(server.port);
    let found = names(&storage, "many/");
    let expected: Vec<String> = (0..1500)
        .map(|number| format!("many/{number:04}"))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(names(&storage, "many/14").len(), 100);
}

#[test]
fn folders_that_consoles_show_are_no_objects() {
    let server = Server::start(Kind::default());
    server.switches.show_folders.store(true, Ordering::SeqCst);
    let storage = bucket_at(server.port);
    for name in ["dump/shop/t.sql", "dump/empty"] {
        write_whole(&*storage, name, b"", Existing::Keep).unwrap();
    }
    std::fs::create_dir_all(server.files().join("base/of/made/by/hand")).unwrap();
    assert_eq!(names(&storage, ""), ["dump/empty", "dump/shop/t.sql"]);
    assert_eq!(names(&storage, "made"), Vec::<String>::new());
    // What cannot be told apart is not ignored.
    server.switches.deny_heads.store(true, Ordering::SeqCst);
    let error = storage.list("").unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Denied, "{error}");
}

#[test]
fn a_key_that_no_name_can_have_is_named() {
    let server = Server::start(Kind::default());
    let storage = bucket_at(server.port);
    write_whole(&*storage, "a/b", b"1", Existing::Keep).unwrap();
    for key in ["base/of/a//b", "base/of//", "base/of/a/../b"] {
        *server.switches.show_key.lock().unwrap() = Some(key.to_owned());
        let error = storage.list("").unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::Name, "{error}");
        let message = error.to_string();
        assert!(
            message.contains(&format!("{key:?}")) && message.contains("a part is empty"),
            "{message}"
        );
    }
    // A list that it is not in succeeds.
    assert_eq!(names(&storage, "b"), Vec::<String>::new());
    for name in ["a//b", "/", "a/../b"] {
        let written = write_whole(&*storage, name, b"1", Existing::Keep);
        for error in [written.unwrap_err(), storage.size(name).unwrap_err()] {
            assert_eq!(error.kind(), StorageErrorKind::Name, "{error}");
        }
    }
}

#[test]
fn an_object_that_was_replaced_since_it_was_listed_is_not_opened() {
    let server = Server::start(Kind::default());
    let storage = bucket_at(server.port);
    for name in ["same", "other"] {
        write_whole(&*storage, name, b"first", Existing::Keep).unwrap();
    }
    let root = std::path::Path::new("test://bucket/replaced");
    mount_all(&storage, root).unwrap();
    write_whole(&*storage, "other", b"later", Existing::Replace).unwrap();
    let open = |name: &str| refloat_store::files::open(&root.join(name), 0);
    let mut text = String::new();
    open("same").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "first");
    let error = open("other").map(drop).unwrap_err();
    assert!(error.to_string().contains("was replaced"), "{error}");
}

#[test]
fn transfers_go_on_over_a_line_that_fails() {
    let server = Server::start(Kind::default());
    let content = bytes(40 * MIB, 5);
    // Parts have 8 MiB: each of the first connections ends within one.
    let proxy = Proxy::start(server.port, Cut::Requests(5 << 20), 4);
    let storage = bucket_at(proxy.port);
    write_whole(&*storage, "x", &content, Existing::Keep).unwrap();
    assert_eq!(proxy.left(), 0);
    let proxy = Proxy::start(server.port, Cut::Answers(9 << 20), 4);
    let storage = bucket_at(proxy.port);
    assert!(read_range(&storage, "x", 0..40 << 20) == content);
    assert_eq!(proxy.left(), 0);
}

#[test]
fn a_service_that_is_busy_is_asked_again() {
    let server = Server::start(Kind::default());
    let storage = bucket_at(server.port);
    let content = bytes(20 * MIB, 6);
    let turned_away = |what: &str, work: &dyn Fn()| {
        server.switches.busy.store(2, Ordering::SeqCst);
        work();
        assert_eq!(server.switches.busy.load(Ordering::SeqCst), 0, "{what}");
    };
    turned_away("in parts", &|| {
        write_whole(&*storage, "x", &content, Existing::Keep).unwrap();
    });
    turned_away("at once", &|| {
        write_whole(&*storage, "y", b"y", Existing::Keep).unwrap();
    });
    turned_away("a list", &|| assert_eq!(names(&storage, ""), ["x", "y"]));
    turned_away("a read", &|| {
        assert!(read_range(&storage, "x", 0..20 << 20) == content);
    });
    turned_away("a size", &|| assert_eq!(storage.size("y").unwrap(), 1));
    turned_away("the end of one", &|| storage.delete("y").unwrap());
}

#[test]
fn a_writer_knows_its_own_object_when_the_answer_is_lost() {
    let server = Server::start(Kind::default());
    for (request, size) in [("PUT", 1000), ("POST /bucket/base/of/x?uploadId", 9 * MIB)] {
        let storage = bucket_at(server.port);
        // Whether the service keeps conditions is known then.
        write_whole(&*storage, "y", b"", Existing::Keep).unwrap();
        let content = bytes(size, 6);
        let proxy = Proxy::start(server.port, Cut::AnswerTo(request), 1);
        let cut = bucket_at(proxy.port);
        write_whole(&*cut, "x", &content, Existing::Keep).unwrap();
        assert_eq!(proxy.left(), 0, "{request}");
        let error = write_whole(&*storage, "x", &content, Existing::Keep).unwrap_err();
        assert_eq!(error.kind(), StorageErrorKind::Exists, "{error}");
        assert!(read_whole(&storage, "x", 1 << 30).unwrap() == content);
        for name in ["x", "y"] {
            storage.delete(name).unwrap();
        }
    }
}

/// Its answer is lost, its repetition finds the object, and nobody says whose that is.
#[test]
fn a_writer_that_does_not_know_whose_the_object_is_does_not_say_that_it_is_another_one() {
    let server = Server::start(Kind::default());
    let proxy = Proxy::start(server.port, Cut::AnswerTo("PUT /bucket/base/of/x"), 1);
    let storage = bucket_at(proxy.port);
    // Whether the service keeps conditions is known then, and is not asked for again.
    write_whole(&*storage, "y", b"", Existing::Keep).unwrap();
    server.switches.deny_heads.store(true, Ordering::SeqCst);
    let error = write_whole(&*storage, "x", b"mine", Existing::Keep).unwrap_err();
    assert_eq!(proxy.left(), 0);
    assert_eq!(error.kind(), StorageErrorKind::Denied, "{error}");
}

#[test]
fn a_dropped_upload_leaves_nothing() {
    let server = Server::start(Kind::default());
    let storage = bucket_at(server.port);
    let mut upload = storage.create("x", Existing::Keep).unwrap();
    upload.write_all(&bytes(30 * MIB, 7)).unwrap();
    assert_eq!(server.seen.begun.lock().unwrap().len(), 1);
    drop(upload);
    assert!(server.seen.begun.lock().unwrap().is_empty());
    assert_eq!(server.parts(), 0);
    assert_eq!(names(&storage, ""), Vec::<String>::new());
    // One that fails because the object came to be meanwhile leaves nothing either.
    let mut upload = storage.create("x", Existing::Keep).unwrap();
    upload.write_all(&bytes(9 * MIB, 7)).unwrap();
    write_whole(&*storage, "x", b"first", Existing::Keep).unwrap();
    let error = upload.finish().unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Exists, "{error}");
    assert!(server.seen.begun.lock().unwrap().is_empty());
    assert_eq!(read_whole(&storage, "x", 100).unwrap(), b"first");
}

#[test]
fn a_large_object_is_on_its_way_in_few_parts() {
    let server = Server::start(Kind::default());
    let storage = bucket_at(server.port);
    let piece = bytes(MIB, 8);
    let mut upload = storage.create("x", Existing::Replace).unwrap();
    for _ in 0..200 {
        upload.write_all(&piece).unwrap();
    }
    upload.finish().unwrap();
    assert_eq!(storage.size("x").unwrap(), 200 << 20);
    assert!(server.seen.most.load(Ordering::SeqCst) <= 4);
    let sizes = server.seen.sizes.lock().unwrap();
    assert_eq!((sizes.len(), sizes.iter().max()), (25, Some(&(8 << 20))));
}

#[test]
fn old_unfinished_objects_are_swept() {
    let server = Server::start(Kind {
        began_long_ago: true,
        ..Kind::default()
    });
    let swept = bucket_at(server.port);
    let other = open(
        &format!("s3://{BUCKET}/base"),
        &Server::options(server.port),
    )
    .unwrap();
    let begin = |storage: &Arc<dyn Storage>, name| {
        let mut upload = storage.create(name, Existing::Keep).unwrap();
        upload.write_all(&bytes(9 * MIB, 9)).unwrap();
        upload
    };
    let uploads = [begin(&swept, "a"), begin(&swept, "b/c"), begin(&other, "d")];
    assert_eq!(swept.sweep().unwrap(), 2);
    let left: Vec<String> = server
        .seen
        .begun
        .lock()
        .unwrap()
        .values()
        .cloned()
        .collect();
    assert_eq!(left, ["base/d"]);
    assert_eq!(swept.sweep().unwrap(), 0);
    // Whose upload was swept learns of it.
    let [first, mut second, last] = uploads;
    second.write_all(&bytes(40 * MIB, 9)).unwrap_err();
    second.finish().unwrap_err();
    let error = first.finish().unwrap_err();
    assert!(
        error.to_string().contains("unfinished upload was removed"),
        "{error}"
    );
    last.finish().unwrap();
    let server = Server::start(Kind {
        lists_nothing_begun: true,
        ..Kind::default()
    });
    assert_eq!(bucket_at(server.port).sweep().unwrap(), 0);
}

#[test]
fn what_is_wrong_is_explained_in_words() {
    let server = Server::start(Kind::default());
    let url = format!("s3://{BUCKET}/base");
    let right = || Server::options(server.port);
    // Nobody listens there, and no other test's server will.
    let closed = 1;
    let role = BucketOptions::default()
        .with(
            "aws_endpoint_url",
            &format!("http://127.0.0.1:{}", server.port),
        )
        .with(
            "aws_metadata_endpoint",
            &format!("http://127.0.0.1:{closed}"),
        );
    let missing = "s3://nowhere/base";
    for (url, options, kind, words) in [
        (
            url.as_str(),
            right().with("aws_access_key_id", "stranger"),
            StorageErrorKind::Denied,
            "does not know the access key",
        ),
        (
            &url,
            right().with("aws_secret_access_key", "wrong-hush"),
            StorageErrorKind::Denied,
            "does not accept the secret key",
        ),
        (
            missing,
            right(),
            StorageErrorKind::NotFound,
            "has no bucket nowhere",
        ),
        (
            &url,
            Server::options(closed),
            StorageErrorKind::Lost,
            "cannot be reached: ",
        ),
        (
            &url,
            role,
            StorageErrorKind::Denied,
            "no credentials were given",
        ),
    ] {
        let storage = open(url, &options).unwrap();
        let content = bytes(9 * MIB, 10);
        let errors = [
            storage.list("").unwrap_err(),
            storage.size("x").unwrap_err(),
            storage.read("x", 0..1).map(drop).unwrap_err(),
            storage
                .delete("x")
                .map_or_else(|error| error, |()| panic!("{url}")),
            write_whole(&*storage, "x", b"1", Existing::Keep).unwrap_err(),
            write_whole(&*storage, "x", b"1", Existing::Replace).unwrap_err(),
            write_whole(&*storage, "x", &content, Existing::Keep).unwrap_err(),
            write_whole(&*storage, "x", &content, Existing::Replace).unwrap_err(),
        ];
        for error in errors {
            let message = error.to_string();
            assert_eq!(error.kind(), kind, "{message}");
            assert!(
                message.starts_with(url) && message.contains(words),
                "{message}"
            );
            for secret in ["hush", SECRET, KEY] {
                assert!(!message.contains(secret), "{message}");
            }
        }
    }
}

#[test]
fn sessions_and_encryption_are_passed_on() {
    let server = Server::start(Kind::default());
    let options = Server::options(server.port)
        .with("aws_session_token", "for-an-hour")
        .with("aws_server_side_encryption", "AES256");
    let storage = open(&format!("s3://{BUCKET}"), &options).unwrap();
    write_whole(&*storage, "x", b"1", Existing::Replace).unwrap();
    let encryption = server.seen.encryption.lock().unwrap().clone();
    assert_eq!(encryption.as_deref(), Some("AES256"));
    let session = server.seen.session.lock().unwrap().clone();
    assert_eq!(session.as_deref(), Some("for-an-hour"));
    let mut one = Vec::new();
    storage
        .read("x", 0..1)
        .unwrap()
        .read_to_end(&mut one)
        .unwrap();
    assert_eq!(one, b"1");
    // A range behind the end is no empty object.
    let error = storage.read("x", 1..2).map(drop).unwrap_err();
    assert_eq!(error.kind(), StorageErrorKind::Short, "{error}");
}

/// `make test-bucket BUCKET=s3://…` with a prefix under which nothing is.
#[test]
#[ignore = "takes a bucket: REFLOAT_TEST_BUCKET and the service's variables"]
fn a_bucket_of_yours_keeps_its_promises() {
    let url = std::env::var("REFLOAT_TEST_BUCKET").expect("REFLOAT_TEST_BUCKET is a URL");
    let options = BucketOptions::from_variables(std::env::vars());
    keeps_its_promises(&open(&url, &options).unwrap());
}
