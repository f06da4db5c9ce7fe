SET NAMES utf8mb4;
CREATE TABLE t (a INT, b INT DEFAULT 7);
CREATE TABLE u (a INT, KEY a (a));
CREATE TABLE k (id INT PRIMARY KEY, n INT, UNIQUE KEY n (n));
-- A plain insert into a view.
CREATE VIEW plain AS SELECT a FROM t;
INSERT INTO plain VALUES (1), (2), (3);
-- The view is another one for the rows behind.
CREATE VIEW v AS SELECT a FROM t;
INSERT INTO v VALUES (10), (11), (12), (13);
CREATE OR REPLACE VIEW v AS SELECT a FROM u;
INSERT INTO v VALUES (20), (21), (22), (23);
DROP VIEW v;
CREATE VIEW v AS SELECT n, id FROM k;
INSERT INTO v VALUES (30, 1), (31, 2), (32, 3), (33, 4);
-- Rows of the table itself before and behind those of its view, and keys that decide.
INSERT INTO k VALUES (5, 5), (6, 6), (7, 7), (8, 8);
INSERT IGNORE INTO v (id, n) VALUES (9, 5), (10, 10);
INSERT INTO k VALUES (11, 11), (12, 12);
REPLACE INTO v (n, id) VALUES (11, 13);
INSERT INTO v (n, id) VALUES (14, 14);
-- A view of a view, whose own view is another one afterwards.
CREATE VIEW below AS SELECT a FROM t;
CREATE VIEW above AS SELECT a FROM below;
INSERT INTO above VALUES (40), (41);
ALTER VIEW below AS SELECT a FROM u;
INSERT INTO above VALUES (42), (43);
-- Rows through a view meet the triggers of the table.
CREATE TRIGGER more BEFORE INSERT ON u FOR EACH ROW SET NEW.a = NEW.a + 1000;
INSERT INTO below VALUES (50), (51);
DROP TRIGGER more;
INSERT INTO below VALUES (52), (53);
-- A table in the place of the view.
DROP VIEW v;
CREATE TABLE v (x INT);
INSERT INTO v VALUES (60), (61);
-- Another view in one statement, with more columns, in another order, or of another table.
CREATE VIEW w AS SELECT a FROM t;
INSERT INTO w VALUES (70), (71);
CREATE OR REPLACE VIEW w AS SELECT n, id FROM k;
INSERT INTO w VALUES (72, 73), (74, 75);
CREATE OR REPLACE VIEW w AS SELECT id, n FROM k;
INSERT INTO w VALUES (76, 77), (78, 79);
CREATE TABLE numbered (id INT AUTO_INCREMENT PRIMARY KEY, a INT);
CREATE OR REPLACE VIEW w AS SELECT id, a FROM numbered;
INSERT INTO w VALUES (5, 1), (NULL, 2), (3, 3), (NULL, 4);
ALTER VIEW w AS SELECT a, id FROM numbered;
INSERT INTO w VALUES (5, 50), (6, NULL);
