SET NAMES utf8mb4;
CREATE TABLE t (id INT PRIMARY KEY, a INT);
CREATE TRIGGER tenfold BEFORE INSERT ON t FOR EACH ROW SET NEW.a = NEW.a * 10;
INSERT INTO t VALUES (1, 1);
DROP TRIGGER tenfold;
INSERT INTO t VALUES (2, 2), (3, 3), (4, 4);
INSERT INTO t VALUES (5, 5);
CREATE TRIGGER tenfold BEFORE INSERT ON t FOR EACH ROW SET NEW.a = NEW.a * 10;
-- A drop directly behind its trigger, with rows in front of both.
CREATE TABLE u (id INT PRIMARY KEY, a INT, KEY a (a));
INSERT INTO u VALUES (1, 1), (2, 2), (3, 3), (4, 4);
CREATE TRIGGER doubled BEFORE INSERT ON u FOR EACH ROW SET NEW.a = NEW.a * 2;
DROP TRIGGER IF EXISTS doubled;
INSERT INTO u VALUES (5, 5), (6, 6), (7, 7), (8, 8);
-- One of two triggers, and none put back.
CREATE TABLE log (what VARCHAR(20), a INT);
CREATE TABLE w (id INT PRIMARY KEY, a INT);
CREATE TRIGGER more BEFORE INSERT ON w FOR EACH ROW SET NEW.a = NEW.a + 1;
CREATE TRIGGER logged AFTER INSERT ON w FOR EACH ROW INSERT INTO log VALUES ('w', NEW.a);
INSERT INTO w VALUES (1, 1);
DROP TRIGGER more;
INSERT INTO w VALUES (2, 2), (3, 3);
DROP TRIGGER logged;
INSERT INTO w VALUES (4, 4), (5, 5);
-- What a trigger does to another table that table's triggers see, as they are then.
CREATE TABLE a (id INT PRIMARY KEY);
CREATE TABLE b (id INT PRIMARY KEY, n INT);
CREATE TRIGGER onward AFTER INSERT ON a FOR EACH ROW INSERT INTO b VALUES (NEW.id, 1);
CREATE TRIGGER seen BEFORE INSERT ON b FOR EACH ROW SET NEW.n = NEW.n + 100;
INSERT INTO a VALUES (1);
DROP TRIGGER seen;
INSERT INTO a VALUES (2), (3);
-- As dump tools write it: nothing to drop, and no rows behind it.
DROP TRIGGER IF EXISTS never;
CREATE TRIGGER never BEFORE INSERT ON log FOR EACH ROW SET NEW.a = 0;
-- A trigger ends with its table: another of its name is another table's.
CREATE TABLE first_of_it (id INT PRIMARY KEY, a INT);
CREATE TRIGGER again BEFORE INSERT ON first_of_it FOR EACH ROW SET NEW.a = NEW.a * 11;
INSERT INTO first_of_it VALUES (1, 1);
DROP TABLE first_of_it;
CREATE TABLE second_of_it (id INT PRIMARY KEY, a INT);
CREATE TRIGGER again BEFORE INSERT ON second_of_it FOR EACH ROW SET NEW.a = NEW.a * 13;
INSERT INTO second_of_it VALUES (2, 2);
DROP TRIGGER again;
INSERT INTO second_of_it VALUES (3, 3), (4, 4), (5, 5), (6, 6);
