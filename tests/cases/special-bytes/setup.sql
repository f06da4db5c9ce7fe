SET NAMES binary; SET sql_mode='';
CREATE TABLE s (c VARBINARY(10)); INSERT INTO s VALUES (0x00), ('\\'), (''''), ('"'), ('\t'), ('\r'), ('\n'), (0x1A), ('\\N'), ('NULL'), (''), (' '), (','), ('('), (')'), (';'), ('--'), ('/*'), ('*/'), ('`'), ('%');
CREATE TABLE pairs (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20) CHARACTER SET latin1, t TEXT CHARACTER SET utf8mb4, b BLOB, vb VARBINARY(20), c CHAR(20) CHARACTER SET latin1, bi BINARY(6));
INSERT INTO pairs (v, t, b, vb, c, bi) SELECT CONCAT(a.c, b.c), CONCAT(a.c, b.c), CONCAT(a.c, b.c), CONCAT(a.c, b.c), CONCAT(a.c, b.c), CONCAT(a.c, b.c) FROM s a, s b;
INSERT INTO pairs (v, t, b, vb, c, bi) VALUES (NULL, NULL, NULL, NULL, NULL, NULL), ('', '', '', '', '', ''), ('x  ', 'x  ', 'x  ', 'x  ', 'x  ', 'x'), ('),(', '''),(''', 'a\\''),(1,''b', '\\''', '"', '\\');
CREATE TABLE canary (id INT PRIMARY KEY, t TEXT);
INSERT INTO canary VALUES (1, 'still here'), (2, 'INSERT INTO `canary` VALUES (3,''no'');\n-- Dump completed\nDROP TABLE canary;\n'), (4, '-- Dump completed on'), (5, '/*!40000 DROP TABLE canary */;');
CREATE TABLE big (id INT PRIMARY KEY, b LONGBLOB, t LONGTEXT);
INSERT INTO big VALUES (1, REPEAT(0x00FF5C27, 300000), REPEAT('ab''c\\', 200000)), (2, REPEAT('x', 3000000), NULL), (3, '', ''), (4, REPEAT(0x0A, 100000), REPEAT('\n', 100000));
