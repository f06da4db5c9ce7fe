SET sql_mode='', cte_max_recursion_depth=100000;
SET SESSION sql_generate_invisible_primary_key=ON; CREATE TABLE l43 (a INT); INSERT INTO l43 (a) VALUES (1), (1), (2); SET SESSION sql_generate_invisible_primary_key=OFF;
CREATE TABLE l49n (id INT PRIMARY KEY, q INT, CONSTRAINT c49n CHECK (q > 0) NOT ENFORCED); INSERT INTO l49n VALUES (1, -1);
CREATE TABLE idx (id INT PRIMARY KEY, t VARCHAR(200), j JSON, g POINT NOT NULL SRID 0, d INT, FULLTEXT f1 (t), FULLTEXT f2 (t) WITH PARSER ngram, KEY k1 ((CAST(j->'$.a' AS UNSIGNED ARRAY))), KEY k2 (id DESC, d), KEY k3 (t(10)) INVISIBLE, SPATIAL KEY s1 (g), KEY k4 ((d * 2)), UNIQUE KEY k5 ((LOWER(t))), KEY k6 (d) USING BTREE COMMENT 'c6');
INSERT INTO idx VALUES (1, 'some words here', '{"a":[1,2]}', POINT(1, 2), 5), (2, 'other words', '{"a":[]}', POINT(0, 0), NULL), (3, NULL, NULL, POINT(-1, 5), 5);
CREATE TABLE ftsid (FTS_DOC_ID BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, t TEXT, u TEXT, FULLTEXT KEY (t), FULLTEXT KEY tu (t, u)); INSERT INTO ftsid VALUES (5, 'hello world', 'x'), (9, 'another', NULL);
CREATE TABLE attrs (a INT, b INT) COMPRESSION='zlib'; INSERT INTO attrs VALUES (1, 2);
